// cpp-httplib does the work: its threads have stacks of the usual size. Those of civetweb have 100 KiB, and a program
// that is linked with CUDA's libraries needs more than that for thread-local storage alone.
#include "http/http_server.h"

#include "base/format.h"
#include "base/host.h"
#include "base/thread.h"

#include "http/host_header.h"
#include <httplib.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace hp {
namespace {

constexpr int kThreads = 4;
constexpr int kPatienceS = 5;          // for a client that does not go on
constexpr size_t kLongestBody = 1024;  // of a question; no page reads one
constexpr size_t kLongestName = 256;   // of a host, as it is told back
constexpr int kMisdirected = 421;      // RFC 9110, section 15.5.20

/// Without the library's SO_REUSEPORT, by which two programs would share a port in silence.
void AllowReuse(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

class LibraryServer : public HttpServer {
 public:
  explicit LibraryServer(std::map<std::string, HttpPage> pages) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_socket_options(AllowReuse);
    server_.set_read_timeout(kPatienceS);
    server_.set_write_timeout(kPatienceS);
    server_.set_payload_max_length(kLongestBody);
    for (auto& [path, page] : pages) {
      server_.Get(path, [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
        const HttpAnswer answer = page();
        for (const auto& [name, value] : answer.headers) response.set_header(name, value);
        response.set_content(answer.body, answer.type);
      });
    }
  }

  ~LibraryServer() override {
    if (!thread_.joinable()) return;
    // A stop before the thread listens would be lost.
    while (!server_.is_running() && !ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_.stop();
    thread_.Join();
  }

  Status Listen(const std::string& flag, const std::string& address) {
    std::string host;
    int port = 0;
    HP_RETURN_IF_ERROR(ParseHostPort(flag, address, &host, &port));
    if (host.empty() || port == 0) {
      return InvalidArgument("--%s is \"%s\"; expected ADDRESS:PORT", flag.c_str(), address.c_str());
    }
    if (IsLoopbackHost(host)) AnswerOnlyTo(host);
    errno = 0;
    if (!server_.bind_to_port(host, port)) {
      const std::string why = errno == 0 ? "no such address" : std::strerror(errno);
      return FailedPrecondition("--%s=%s: %s; is the address this host's, and the port free?", flag.c_str(),
                                address.c_str(), why.c_str());
    }
    thread_ = Thread("http", [this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    return OkStatus();
  }

 private:
  /// Refuses requests that name another host, before any page is asked.
  void AnswerOnlyTo(const std::string& host) {
    server_.set_pre_routing_handler([host](const httplib::Request& request, httplib::Response& response) {
      const std::string named = request.get_header_value("Host");
      if (request.get_header_value_count("Host") == 1 && IsOwnHostHeader(named, host)) {
        return httplib::Server::HandlerResponse::Unhandled;
      }
      response.status = kMisdirected;
      response.set_header("X-Content-Type-Options", "nosniff");
      response.set_content(Format("this server answers to localhost, %s and other loopback addresses, not to \"%s\"\n",
                                  host.c_str(), Printable(named, kLongestName).c_str()),
                           "text/plain; charset=utf-8");
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  httplib::Server server_;
  std::atomic<bool> ended_ = false;
  Thread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(const std::string& flag, const std::string& address,
                                                       std::map<std::string, HttpPage> pages) {
  auto server = std::make_unique<LibraryServer>(std::move(pages));
  HP_RETURN_IF_ERROR(server->Listen(flag, address));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace hp
