// What is received goes straight where it belongs. The linker puts the functions here in front of recv and readv
// (--wrap), so that the test sees every range of memory that the kernel is given.
#include "base/mutex.h"
#include "test/contract/fixtures.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>
#include <thread>
#include <vector>

namespace hp {
namespace {

/// Ranges that were received into, by all threads of this process.
class ReceivedRanges {
 public:
  void Add(void* begin, size_t bytes) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    ranges_.emplace_back(static_cast<std::byte*>(begin), bytes);
  }
  std::vector<std::span<std::byte>> Take() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return std::exchange(ranges_, {});
  }

 private:
  Mutex mutex_;
  std::vector<std::span<std::byte>> ranges_ HP_GUARDED_BY(mutex_);
};

ReceivedRanges& Received() {
  static ReceivedRanges ranges;
  return ranges;
}

}  // namespace
}  // namespace hp

extern "C" {

ssize_t __real_recv(int fd, void* buffer, size_t bytes, int flags);
ssize_t __real_readv(int fd, const iovec* ranges, int count);

ssize_t __wrap_recv(int fd, void* buffer, size_t bytes, int flags) {
  hp::Received().Add(buffer, bytes);
  return __real_recv(fd, buffer, bytes, flags);
}

ssize_t __wrap_readv(int fd, const iovec* ranges, int count) {
  for (int i = 0; i < count; ++i) hp::Received().Add(ranges[i].iov_base, ranges[i].iov_len);
  return __real_readv(fd, ranges, count);
}

}  // extern "C"

namespace hp {
namespace {

TEST(TcpReceiveTest, PayloadIsReceivedIntoThePlace) {
  constexpr size_t kBytes = 3'000'000;
  std::vector<std::byte> place(kBytes);
  auto listener = TcpListener::Bind("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const PeerAddress receiver{0, "receiver", "127.0.0.1", (*listener)->port()}, writer{1, "writer", "127.0.0.1", 1};
  TestNode to(MakeTcpTransport({.rank = 0, .peers = {receiver, writer}}, *std::move(listener)), "job", 0);
  TestNode from(MakeTcpTransport({.rank = 1, .peers = {receiver, writer}}, nullptr), "job", 1);
  to.Start();
  from.Start();
  to.Await(Event::kConnected);
  Received().Take();
  ASSERT_TRUE(to->Grant(1, {.msg_id = 4}, place).ok());
  const std::vector<std::byte> source = Pattern(kBytes, 1);
  ASSERT_TRUE(from->Write(0, {.msg_id = 4}, from.Get(Event::kGranted, {.msg_id = 4}).grant, source).ok());
  EXPECT_TRUE(to.Get(Event::kGrantEnded, {.msg_id = 4}).status.ok());
  to->Stop();
  EXPECT_TRUE(Same(place, source));

  std::vector<bool> seen(kBytes);
  size_t elsewhere = 0;
  for (const std::span<std::byte> range : Received().Take()) {
    if (range.data() < place.data() || range.data() >= place.data() + kBytes) {
      elsewhere = std::max(elsewhere, range.size());
      continue;
    }
    ASSERT_LE(range.data() + range.size(), place.data() + kBytes);
    std::fill_n(seen.begin() + (range.data() - place.data()), range.size(), true);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<long>(kBytes));
  EXPECT_EQ(elsewhere, kFrameHeaderBytes) << "no other buffer is received to than a header's";
}

/// Of this process, all threads.
int64_t ProcessorNs() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

/// Processor time that this process takes in the next 0.2 s.
int64_t ProcessorNsFromNowOn() {
  const int64_t begin = ProcessorNs();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return ProcessorNs() - begin;
}

// Heartbeats are empty: among many nodes one comes at any time, and spinning after each takes a processor.
TEST(TcpSpinTest, AnEmptyMessageIsNoReasonToSpin) {
  constexpr int64_t kSpins = 20'000'000;  // in 0.2 s; a thread that spins has 0.2 s, or its share of a loaded machine
  auto listener = TcpListener::Bind("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const PeerAddress receiver{0, "receiver", "127.0.0.1", (*listener)->port()}, writer{1, "writer", "127.0.0.1", 1};
  ConnectOptions options{.rank = 0, .peers = {receiver, writer}};
  options.spin_ns = 1'000'000'000;
  TestNode to(MakeTcpTransport(options, *std::move(listener)), "job", 0);
  options.rank = 1;
  options.spin_ns = 0;
  TestNode from(MakeTcpTransport(options, nullptr), "job", 1);
  to.Start();
  from.Start();
  to.Await(Event::kConnected);
  from.Await(Event::kConnected);
  while (ProcessorNsFromNowOn() > kSpins) {  // after the handshake
  }
  ASSERT_TRUE(from->Send(0, 7, {}).ok());
  to.Await(Event::kMessage);
  EXPECT_LT(ProcessorNsFromNowOn(), kSpins);
  const std::byte byte{};
  ASSERT_TRUE(from->Send(0, 7, {&byte, 1}).ok());
  to.Await(Event::kMessage, 2);
  EXPECT_GT(ProcessorNsFromNowOn(), kSpins) << "else the test would see no spinning";
}

}  // namespace
}  // namespace hp
