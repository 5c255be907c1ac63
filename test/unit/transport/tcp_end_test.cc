// The end of a connection while another thread is sending. The linker puts the function here in front of sendmsg
// (--wrap), so that a test can hold a thread in it.
#include "base/mutex.h"
#include "base/thread.h"
#include "test/contract/fixtures.h"
#include "transport/tcp/tcp_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>

namespace hp {
namespace {

/// Holds the calls of one thread.
class HeldCalls {
 public:
  /// Those of this thread, from now on, until Release.
  void HoldMine() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    holds_ = true;
    mine = true;
  }
  void Call() HP_EXCLUDES(mutex_) {
    if (!mine) return;
    MutexLock lock(&mutex_);
    is_held_ = true;
    changed_.SignalAll();
    while (holds_) changed_.Wait(&mutex_);
  }
  void AwaitHeld() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (!is_held_) changed_.Wait(&mutex_);
  }
  void Release() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    holds_ = false;
    changed_.SignalAll();
  }

 private:
  static thread_local bool mine;
  Mutex mutex_;
  CondVar changed_;
  bool holds_ HP_GUARDED_BY(mutex_) = false, is_held_ HP_GUARDED_BY(mutex_) = false;
};
thread_local bool HeldCalls::mine = false;

HeldCalls& Sends() {
  static HeldCalls calls;
  return calls;
}

}  // namespace
}  // namespace hp

extern "C" {

ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);

ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  hp::Sends().Call();
  return __real_sendmsg(fd, message, flags);
}

}  // extern "C"

namespace hp {
namespace {

/// The peer has ended the connection already; END is sent by a thread that was sending something else.
TEST(TcpEndTest, AnEndThatAPostingThreadSendsClosesTheConnection) {
  auto listener = TcpListener::Bind("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const PeerAddress first{0, "first", "127.0.0.1", (*listener)->port()}, second{1, "second", "127.0.0.1", 1};
  TestNode here(MakeTcpTransport({.rank = 0, .peers = {first, second}}, *std::move(listener)), "job", 0);
  TestNode there(MakeTcpTransport({.rank = 1, .peers = {first, second}}, nullptr), "job", 1);
  here.Start();
  there.Start();
  here.Await(Event::kConnected);
  there.Await(Event::kConnected);
  Thread poster("poster", [&here] {
    Sends().HoldMine();
    EXPECT_TRUE(here->Send(1, 5, {}).ok());
  });
  Sends().AwaitHeld();
  there->Shutdown(0);
  // Its END and its end of stream come at once; ours goes behind the message that is held.
  here->Shutdown(1);
  const auto run = [&here] {
    Mutex mutex;
    CondVar ran;
    bool has_run = false;
    here->Defer([&] {
      MutexLock lock(&mutex);
      has_run = true;
      ran.SignalAll();
    });
    MutexLock lock(&mutex);
    while (!has_run) ran.Wait(&mutex);
  };
  for (int i = 0; i < 100; ++i) run();
  Sends().Release();
  poster.Join();
  here.Await(Event::kClosed);
  there.Await(Event::kClosed);
  for (TestNode* const node : {&here, &there}) {
    EXPECT_EQ(node->events(Event::kClosed)[0].status.code(), StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace hp
