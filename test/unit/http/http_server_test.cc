#include "http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace hp {
namespace {

/// A port that nobody listens on now.
int FreePort() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(getsockname(probe, reinterpret_cast<sockaddr*>(&at), &size), 0);
  close(probe);
  return ntohs(at.sin_port);
}

/// All that a server says to `request`, until it closes.
std::string Ask(int port, const std::string& request) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<uint16_t>(port));
  std::string said;
  if (connect(client, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0 &&
      send(client, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    char part[4096];
    for (ssize_t got; (got = recv(client, part, sizeof(part), 0)) > 0;) said.append(part, static_cast<size_t>(got));
  }
  close(client);
  return said;
}

std::string Question(const std::string& method, const std::string& path,
                     const std::string& host = "Host: 127.0.0.1\r\n") {
  return method + " " + path + " HTTP/1.1\r\n" + host + "Content-Length: 0\r\nConnection: close\r\n\r\n";
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    const HttpPage page = [this] {
      return HttpAnswer{"text/plain", "asked " + std::to_string(++asked_), {{"X-Of", "1"}}};
    };
    StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::Open("http", "127.0.0.1:" + std::to_string(port_), {{"/page", page}});
    if (!server.ok() && server.status().message().find("built without") != std::string::npos) {
      GTEST_SKIP() << server.status().message();
    }
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
  }

  const int port_ = FreePort();
  std::atomic<int> asked_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AsksThePageEachTime) {
  for (const char* count : {"1", "2"}) {
    const std::string said = Ask(port_, Question("GET", "/page"));
    EXPECT_EQ(said.substr(0, 15), "HTTP/1.1 200 OK") << said;
    EXPECT_NE(said.find("Content-Type: text/plain\r\n"), std::string::npos) << said;
    EXPECT_NE(said.find("X-Of: 1\r\n"), std::string::npos) << said;
    EXPECT_EQ(said.substr(said.find("\r\n\r\n") + 4), std::string("asked ") + count);
  }
}

TEST_F(HttpServerTest, IsReadOnly) {
  EXPECT_EQ(Ask(port_, Question("GET", "/")).substr(0, 12), "HTTP/1.1 404");
  EXPECT_EQ(Ask(port_, Question("GET", "/../../etc/passwd")).substr(0, 12), "HTTP/1.1 404");
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
    EXPECT_EQ(Ask(port_, Question(method, "/page")).substr(0, 12), "HTTP/1.1 404") << method;
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(HttpServerTest, AnswersToItsOwnNamesAlone) {
  for (const char* own : {"127.0.0.1:1", "localhost", "[::1]:80"}) {
    const std::string said = Ask(port_, Question("GET", "/page", "Host: " + std::string(own) + "\r\n"));
    EXPECT_EQ(said.substr(0, 15), "HTTP/1.1 200 OK") << own << ": " << said;
  }
  const int asked = asked_;
  const std::string rebound = Ask(port_, Question("GET", "/page", "Host: evil.example:8080\r\n"));
  EXPECT_EQ(rebound.substr(0, 12), "HTTP/1.1 421") << rebound;
  EXPECT_NE(rebound.find("answers to localhost, 127.0.0.1 and other loopback addresses, not to \"evil.example:8080\""),
            std::string::npos)
      << rebound;
  for (const char* hosts : {"", "Host: \r\n", "Host: 127.0.0.1\r\nHost: evil.example\r\n"}) {
    EXPECT_EQ(Ask(port_, Question("GET", "/page", hosts)).substr(0, 12), "HTTP/1.1 421") << hosts;
    EXPECT_EQ(Ask(port_, Question("HEAD", "/page", hosts)).substr(0, 12), "HTTP/1.1 421") << hosts;
  }
  EXPECT_EQ(asked_, asked) << "no page is asked";
}

TEST_F(HttpServerTest, RefusesAPortThatIsTaken) {
  const StatusOr<std::unique_ptr<HttpServer>> second =
      HttpServer::Open("http", "127.0.0.1:" + std::to_string(port_), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(second.status().message().find("--http=127.0.0.1:"), std::string::npos) << second.status().message();
}

TEST_F(HttpServerTest, EndsAtOnce) {
  server_.reset();
  EXPECT_EQ(Ask(port_, Question("GET", "/page")), "");
  // Again, before its thread listens.
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(HttpServer::Open("http", "127.0.0.1:" + std::to_string(port_), {}).ok());
  }
}

TEST(HttpServerAddress, OfAllInterfacesAnswersToAnyName) {
  const int port = FreePort();
  const StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::Open("metrics", "0.0.0.0:" + std::to_string(port), {{"/page", [] {
                                                                         return HttpAnswer{"text/plain", "here", {}};
                                                                       }}});
  if (!server.ok() && server.status().message().find("built without") != std::string::npos) {
    GTEST_SKIP() << server.status().message();
  }
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_EQ(Ask(port, Question("GET", "/page", "Host: node7.cluster\r\n")).substr(0, 12), "HTTP/1.1 200");
}

TEST(HttpServerAddress, OfAnotherForm) {
  for (const char* address : {"", "here", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:0", "::1:80"}) {
    const StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Open("http", address, {});
    EXPECT_FALSE(server.ok()) << address;
  }
}

}  // namespace
}  // namespace hp
