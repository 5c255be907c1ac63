// A real Redis server. Nobody waits for a lease to run out: the test looks at the life that is left of it, and shortens
// it.
#include "rendezvous/redis_store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace hp {
namespace {

const std::string kA(32, 'a'), kB(32, 'b');
constexpr int kLeaseMs = 10000, kPatienceS = 60;

/// A port of loopback that nobody listens on now.
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

class RedisStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (system("command -v redis-server >/dev/null") != 0) GTEST_SKIP() << "SKIPPED: redis-server is missing";
    char folder[] = "/tmp/hpnode-redis-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    const std::string port = std::to_string(port_);
    server_ = fork();
    if (server_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1", "--save", "", "--dir",
             folder, "--logfile", "log", nullptr);
      _exit(127);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceS);
    for (;;) {
      context_.reset(redisConnect("127.0.0.1", port_));
      if (context_->err == 0) break;
      ASSERT_EQ(waitpid(server_, nullptr, WNOHANG), 0) << "redis-server has ended";
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "redis-server does not listen";
      std::this_thread::yield();
    }
  }
  void TearDown() override {
    if (server_ > 0) {
      kill(server_, SIGKILL);
      waitpid(server_, nullptr, 0);
    }
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<RedisStore> Open(const std::string& run = "run") const {
    return std::make_unique<RedisStore>("127.0.0.1", port_, run, "");
  }
  /// What the server says to a command that is answered by a number.
  int64_t Ask(const std::string& command) const {
    auto* reply = static_cast<redisReply*>(redisCommand(context_.get(), command.c_str()));
    if (reply == nullptr) return -1;
    const int64_t answer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return answer;
  }

  const int port_ = FreePort();
  std::string folder_;
  pid_t server_ = -1;
  std::unique_ptr<redisContext, void (*)(redisContext*)> context_{nullptr, &redisFree};
};

TEST_F(RedisStoreTest, TheFirstTableStays) {
  const auto a = Open(), b = Open();
  EXPECT_TRUE(*a->CreateTable(1, "of a"));
  EXPECT_FALSE(*b->CreateTable(1, "of b"));
  EXPECT_TRUE(*a->CreateTable(1, "of a")) << "the first reply was lost";
  EXPECT_EQ(*b->ReadTable(1), "of a");
  EXPECT_EQ(*b->ReadTable(2), std::nullopt);
  EXPECT_EQ(*Open("another")->ReadTable(1), std::nullopt);
}

TEST_F(RedisStoreTest, ALeaseIsHeldByOneAndRenewedByItAlone) {
  const auto a = Open(), b = Open();
  EXPECT_TRUE(*a->HoldLease(1, kA));
  EXPECT_FALSE(*b->HoldLease(1, kB));
  EXPECT_TRUE(*b->HoldLease(2, kB)) << "of another incarnation";
  ASSERT_EQ(Ask("PEXPIRE hpnode:run:lease:1 5000"), 1);
  EXPECT_FALSE(*b->HoldLease(1, kB));
  EXPECT_LE(Ask("PTTL hpnode:run:lease:1"), 5000) << "somebody else has renewed it";
  EXPECT_TRUE(*a->HoldLease(1, kA));
  EXPECT_GT(Ask("PTTL hpnode:run:lease:1"), 5000) << "its holder has not renewed it";
  EXPECT_LE(Ask("PTTL hpnode:run:lease:1"), kLeaseMs);
}

TEST_F(RedisStoreTest, ALeaseThatRanOutIsForWhoComesNext) {
  const auto a = Open(), b = Open();
  EXPECT_TRUE(*a->HoldLease(1, kA));
  ASSERT_EQ(Ask("PEXPIRE hpnode:run:lease:1 0"), 1);
  EXPECT_TRUE(*b->HoldLease(1, kB));
  EXPECT_FALSE(*a->HoldLease(1, kA)) << "the old holder took it back";
}

TEST_F(RedisStoreTest, RecordsAreListedReplacedAndRemoved) {
  const auto a = Open(), b = Open();
  EXPECT_TRUE(a->PutNode(kA, "waits").ok());
  EXPECT_TRUE(a->PutNode(kA, std::string("runs\0on", 7)).ok());
  EXPECT_TRUE(b->PutNode(kB, "waits").ok());
  EXPECT_EQ(*a->ReadNodes(), (std::map<std::string, std::string>{{kA, std::string("runs\0on", 7)}, {kB, "waits"}}));
  EXPECT_TRUE(a->RemoveNode(kB).ok());
  EXPECT_TRUE(a->RemoveNode(kB).ok());
  EXPECT_EQ(a->ReadNodes()->size(), 1U);
  EXPECT_GT(Ask("TTL hpnode:run:nodes"), 80 * 24 * 3600) << "it stays for ever, or goes too soon";
}

TEST_F(RedisStoreTest, AServerThatIsGoneIsTriedAgain) {
  const auto a = Open();
  EXPECT_TRUE(*a->CreateTable(1, "of a"));
  EXPECT_EQ(Ask("CLIENT KILL TYPE normal SKIPME yes"), 1);
  EXPECT_EQ(a->ReadTable(1).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(*a->ReadTable(1), "of a");
}

}  // namespace
}  // namespace hp
