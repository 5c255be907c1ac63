// What every transport promises when a peer goes away.
#include "test/contract/fixtures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <thread>

namespace hp {
namespace {

class FailureTest : public TransportTest {};

constexpr size_t kBulk = 8 << 20;

TEST_P(FailureTest, EverythingOpenEndsOnceAndOthersGoOn) {
  constexpr uint64_t kOpen = 10;
  StartNodes(3);
  std::vector<std::byte> place(100), bulk_place(kBulk);
  const std::vector<std::byte> source = Pattern(kBulk, 1);
  for (uint64_t id = 0; id < kOpen; ++id) ASSERT_TRUE(node(0)->Grant(2, {.msg_id = id}, place).ok());
  for (uint64_t id = 0; id < kOpen; ++id) ASSERT_TRUE(node(2)->Grant(0, {.msg_id = 100 + id}, bulk_place).ok());
  node(0).Await(Event::kGranted, kOpen);
  for (const Event& granted : node(0).events(Event::kGranted)) {
    ASSERT_TRUE(node(0)->Write(2, granted.tag, granted.grant, source).ok());
  }
  node(2)->Stop();
  for (Rank rank : {0, 1}) {
    node(rank).AwaitFrom(Event::kClosed, 2);
    EXPECT_EQ(node(rank).events(Event::kClosed).size(), 1u);
    EXPECT_EQ(node(rank).events(Event::kClosed)[0].status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(node(0).events().back().kind, Event::kClosed);
  EXPECT_EQ(node(0).events(Event::kGrantEnded).size(), kOpen);
  EXPECT_EQ(node(0).events(Event::kWriteEnded).size(), kOpen);
  for (const Event& event : node(0).events(Event::kGrantEnded)) {
    EXPECT_EQ(event.status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(node(0)->Send(2, 0, {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(node(0)->Grant(2, {}, place).code(), StatusCode::kUnavailable);

  const PlaceTag tag{.msg_id = 77};
  ASSERT_TRUE(node(1)->Grant(0, tag, place).ok());
  const RemoteGrant grant = node(0).Get(Event::kGranted, tag).grant;
  ASSERT_TRUE(node(0)->Write(1, tag, grant, std::span(source).first(place.size())).ok());
  EXPECT_TRUE(node(1).Get(Event::kGrantEnded, tag).status.ok());
  EXPECT_TRUE(Same(place, std::span(source).first(place.size())));
}

// The writer goes away in the middle of writes; the owner of the places uses them again as soon as the grants have
// ended.
TEST_P(FailureTest, NothingIsWrittenAfterAGrantEnded) {
  constexpr int kWrites = 8;
  constexpr std::byte kMine{0xEE};
  MakeNodes({.size = 2});
  std::vector<std::vector<std::byte>> places(kWrites, std::vector<std::byte>(kBulk));
  std::atomic<int> failed = 0;
  node(0).ReactBy([&](const Event& event) {
    if (event.kind != Event::kGrantEnded) return;
    std::memset(places[event.tag.msg_id].data(), 0xEE, kBulk);
    if (!event.status.ok()) ++failed;
  });
  for (auto& each : nodes_) each->Start();
  AwaitMesh();
  std::vector<std::byte> source = Pattern(kBulk, 5);
  for (uint64_t id = 0; id < kWrites; ++id) ASSERT_TRUE(node(0)->Grant(1, {.msg_id = id}, places[id]).ok());
  node(1).Await(Event::kGranted, kWrites);
  for (const Event& granted : node(1).events(Event::kGranted)) {
    // The last grant is never written.
    if (granted.tag.msg_id + 1 < kWrites) {
      ASSERT_TRUE(node(1)->Write(0, granted.tag, granted.grant, source).ok());
    }
  }
  node(0).Await(Event::kGrantEnded);
  node(1)->Stop();
  std::vector<std::byte>().swap(source);  // not read any more
  node(0).Await(Event::kClosed);
  EXPECT_EQ(node(0).events(Event::kGrantEnded).size(), static_cast<size_t>(kWrites));
  EXPECT_GE(failed, 1);
  for (const auto& place : places) EXPECT_TRUE(AllAre(place, kMine));
}

// An event for which there is no memory is lost, and the node is told so; the thread lives.
TEST_P(FailureTest, AShortageOfMemoryIsReported) {
  StartNodes(2);
  node(0).ReactBy([](const Event& event) {
    if (event.kind == Event::kMessage) throw std::bad_alloc();
  });
  ASSERT_TRUE(node(1)->Send(0, 7, {}).ok());
  node(0).Await(Event::kOutOfMemory);
  const Status status = node(0).events(Event::kOutOfMemory)[0].status;
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "out of memory: moving data between nodes");
  std::atomic<bool> alive = false;
  node(0)->Defer([&alive] { alive = true; });
  node(0)->Break(1, Unavailable("the node ends"));
  node(0).AwaitFrom(Event::kClosed, 1);
  EXPECT_TRUE(alive);
}

TEST_P(FailureTest, NothingHappensAfterStop) {
  constexpr int kWrites = 8;
  constexpr std::byte kMine{0xEE};
  StartNodes(2);
  std::vector<std::vector<std::byte>> places(kWrites, std::vector<std::byte>(kBulk));
  const std::vector<std::byte> source = Pattern(kBulk, 5);
  for (uint64_t id = 0; id < kWrites; ++id) ASSERT_TRUE(node(0)->Grant(1, {.msg_id = id}, places[id]).ok());
  node(1).Await(Event::kGranted, kWrites);
  for (const Event& granted : node(1).events(Event::kGranted)) {
    ASSERT_TRUE(node(1)->Write(0, granted.tag, granted.grant, source).ok());
  }
  node(0).Await(Event::kGrantEnded);
  node(0)->Stop();
  if (GetParam().peers_write_on) node(1).Await(Event::kClosed);
  for (auto& place : places) std::memset(place.data(), 0xEE, kBulk);
  const size_t events = node(0).events().size();
  EXPECT_EQ(node(0)->Send(1, 0, {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(node(0)->Grant(1, {}, places[0]).code(), StatusCode::kUnavailable);
  node(0)->Shutdown(1);
  node(1).Await(Event::kClosed);
  EXPECT_EQ(node(1).events(Event::kWriteEnded).size(), static_cast<size_t>(kWrites));
  node(0)->Stop();
  EXPECT_EQ(node(0).events().size(), events);
  for (const auto& place : places) EXPECT_TRUE(AllAre(place, kMine));
}

// Threads post to a peer that stops; what was accepted ends exactly once.
TEST_P(FailureTest, PostsThatRaceWithAFailureEndOnceOrAreRefused) {
  constexpr int kThreads = 3;
  StartNodes(2);
  const std::vector<std::byte> message(1000);
  std::vector<std::byte> places[kThreads];
  std::atomic<size_t> accepted = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    places[thread].resize(100);
    threads.emplace_back([&, thread] {
      for (uint64_t id = 0;; ++id) {
        const Status status =
            node(0)->Grant(1, {.msg_id = id, .channel = static_cast<uint32_t>(thread)}, places[thread]);
        if (status.code() == StatusCode::kUnavailable) return;
        accepted += status.ok();
        (void)node(0)->Send(1, 0, message).ok();
      }
    });
  }
  node(1).Await(Event::kGranted, 20);
  node(1)->Stop();
  for (std::thread& thread : threads) thread.join();
  node(0).Await(Event::kClosed);
  EXPECT_EQ(node(0).events(Event::kGrantEnded).size(), accepted);
  EXPECT_EQ(node(0).events().back().kind, Event::kClosed);
}

INSTANTIATE_TEST_SUITE_P(Transports, FailureTest, testing::ValuesIn(AllTransports()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp
