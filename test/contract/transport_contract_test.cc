// What every transport promises while nothing fails.
#include "test/contract/fixtures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <set>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;

class ContractTest : public TransportTest {
 protected:
  /// `to` grants a place for `tag` to `from`, which writes `source` into it as soon as it may.
  void Transfer(Rank from, Rank to, const PlaceTag& tag, std::span<const std::byte> source,
                std::span<std::byte> place) {
    ASSERT_TRUE(node(to)->Grant(from, tag, place).ok());
    const Event granted = node(from).Get(Event::kGranted, tag);
    EXPECT_EQ(granted.bytes, place.size());
    EXPECT_EQ(granted.peer, to);
    ASSERT_TRUE(node(from)->Write(to, tag, granted.grant, source).ok());
  }
};

TEST_P(ContractTest, WritesArriveInTheirPlaces) {
  StartNodes(2);
  const size_t sizes[] = {1, 4, 1000, 4096, 262144 - 48, 262144, 262145, 524288, 3'000'001, 0};
  std::vector<std::vector<std::byte>> sources, places;
  for (size_t bytes : sizes) {
    sources.push_back(Pattern(bytes, bytes));
    places.emplace_back(bytes + 2, std::byte{0x55});
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    const PlaceTag tag{.msg_id = 0x123456789A00 + i, .channel = 9};
    Transfer(0, 1, tag, sources[i], std::span(places[i]).subspan(1, sizes[i]));
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    SCOPED_TRACE(sizes[i]);
    const PlaceTag tag{.msg_id = 0x123456789A00 + i, .channel = 9};
    EXPECT_TRUE(node(1).Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(node(0).Get(Event::kWriteEnded, tag).status.ok());
    EXPECT_TRUE(Same(std::span(places[i]).subspan(1, sizes[i]), sources[i]));
    EXPECT_EQ(places[i].front(), std::byte{0x55});
    EXPECT_EQ(places[i].back(), std::byte{0x55});
  }
  EXPECT_EQ(node(1).events(Event::kGrantEnded).size(), std::size(sizes));
  EXPECT_EQ(node(0).events(Event::kWriteEnded).size(), std::size(sizes));
}

TEST_P(ContractTest, MessagesOfAllSizesArriveInOrder) {
  StartNodes(2);
  const size_t sizes[] = {0, 1, 100, 4000, 262144, 262145, kMaxMessageBytes};
  std::vector<std::string> bodies;
  for (int i = 0; i < 210; ++i) {
    const std::vector<std::byte> bytes = Pattern(i % 30 == 0 ? sizes[i / 30] : i, i);
    bodies.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ASSERT_TRUE(node(0)->Send(1, i, AsBytes(bodies.back())).ok());
  }
  node(1).Await(Event::kMessage, bodies.size());
  const std::vector<Event> messages = node(1).events(Event::kMessage);
  for (size_t i = 0; i < bodies.size(); ++i) {
    EXPECT_EQ(messages[i].type, i);
    EXPECT_EQ(messages[i].peer, 0);
    EXPECT_TRUE(messages[i].body == bodies[i]) << "message " << i;
  }
  const std::string too_long(kMaxMessageBytes + 1, 'x');
  EXPECT_EQ(node(0)->Send(1, 0, AsBytes(too_long)).code(), StatusCode::kInvalidArgument);
}

TEST_P(ContractTest, AGrantIsUsedOnceAndAsGranted) {
  StartNodes(2);
  const PlaceTag tag{.msg_id = 5, .channel = 1}, other{.msg_id = 5, .channel = 2};
  std::vector<std::byte> place(100);
  const std::vector<std::byte> source = Pattern(101, 1);
  ASSERT_TRUE(node(1)->Grant(0, tag, place).ok());
  const RemoteGrant grant = node(0).Get(Event::kGranted, tag).grant;
  const auto write = [&](const PlaceTag& to, RemoteGrant with, size_t bytes) {
    return node(0)->Write(1, to, with, std::span(source).first(bytes)).code();
  };
  EXPECT_EQ(write(tag, grant, 99), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(tag, grant, 101), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(other, grant, 100), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(tag, {grant.index, grant.generation + 1}, 100), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(tag, {grant.index + 1, grant.generation}, 100), StatusCode::kInvalidArgument);
  EXPECT_EQ(write(tag, grant, 100), StatusCode::kOk);
  EXPECT_EQ(write(tag, grant, 100), StatusCode::kInvalidArgument);
  EXPECT_EQ(node(0)->CancelGrant(1, grant).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(node(1).Get(Event::kGrantEnded, tag).status.ok());
  EXPECT_TRUE(Same(place, std::span(source).first(place.size())));
  // A refused post leaves nothing behind.
  ASSERT_TRUE(node(0)->Send(1, 0, {}).ok());
  node(1).Await(Event::kMessage);
  EXPECT_EQ(node(1).events(Event::kGrantEnded).size(), 1u);
  node(0).Await(Event::kWriteEnded);
  EXPECT_EQ(node(0).events(Event::kWriteEnded).size(), 1u);
}

TEST_P(ContractTest, ACancelledGrantEndsOnce) {
  StartNodes(2);
  std::vector<std::byte> place(100);
  for (uint64_t id = 0; id < 20; ++id) {
    const PlaceTag tag{.msg_id = id};
    ASSERT_TRUE(node(1)->Grant(0, tag, place).ok());
    ASSERT_TRUE(node(0)->CancelGrant(1, node(0).Get(Event::kGranted, tag).grant).ok());
    EXPECT_EQ(node(1).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(node(1).events(Event::kGrantEnded).size(), 20u);
  EXPECT_TRUE(node(0).events(Event::kWriteEnded).empty());
}

TEST_P(ContractTest, UnknownPeersAreNotConnected) {
  StartNodes(2);
  std::vector<std::byte> bytes(10);
  for (Rank peer : {2, -1, kFirstClientRank}) {
    EXPECT_EQ(node(0)->Send(peer, 0, bytes).code(), StatusCode::kUnavailable);
    EXPECT_EQ(node(0)->Grant(peer, {}, bytes).code(), StatusCode::kUnavailable);
    EXPECT_EQ(node(0)->Write(peer, {}, {}, bytes).code(), StatusCode::kUnavailable);
    EXPECT_EQ(node(0)->CancelGrant(peer, {}).code(), StatusCode::kUnavailable);
    EXPECT_EQ(node(0)->LastHeardNs(peer), 0);
    node(0)->Shutdown(peer);
  }
}

// The receiver is held up until more is queued than any kernel buffers, and a message after it. The thread that queues
// may be held up itself, for longer than bulk takes; so a message that comes last is no proof, but one that comes last
// each time is.
TEST_P(ContractTest, ControlPassesBulk) {
  constexpr size_t kBytes = 8 << 20, kWrites = 10;
  constexpr int kAttempts = 20;
  const std::vector<std::byte> source = Pattern(kBytes, 3);
  std::vector<std::vector<std::byte>> places(kWrites, std::vector<std::byte>(kBytes));
  size_t before = kWrites;  // writes that arrived before the message
  for (int attempt = 0; attempt < kAttempts && before == kWrites; ++attempt) {
    nodes_.clear();
    MakeNodes({.size = 2});
    std::promise<void> release;
    node(1).ReactBy([future = release.get_future().share()](const Event& event) {
      if (event.kind == Event::kMessage && event.type == 1) future.wait();
    });
    for (auto& each : nodes_) each->Start();
    AwaitMesh();
    for (uint64_t id = 0; id < kWrites; ++id) ASSERT_TRUE(node(1)->Grant(0, {.msg_id = id}, places[id]).ok());
    node(0).Await(Event::kGranted, kWrites);
    ASSERT_TRUE(node(0)->Send(1, 1, {}).ok());
    node(1).Await(Event::kMessage);
    for (const Event& granted : node(0).events(Event::kGranted)) {
      ASSERT_TRUE(node(0)->Write(1, granted.tag, granted.grant, source).ok());
    }
    ASSERT_TRUE(node(0)->Send(1, 2, {}).ok());
    release.set_value();
    node(1).Await(Event::kGrantEnded, kWrites);
    node(1).Await(Event::kMessage, 2);
    before = 0;
    for (const Event& event : node(1).events()) {
      if (event.kind == Event::kMessage && event.type == 2) break;
      before += event.kind == Event::kGrantEnded;
    }
    for (auto& place : places) {
      EXPECT_TRUE(Same(place, source));
      std::memset(place.data(), 0, kBytes);
    }
  }
  EXPECT_LT(before, kWrites);
}

// Three nodes, four threads each: every thread grants places to both other nodes and sends; every grant is answered
// from the handler by a write.
TEST_P(ContractTest, ManyThreadsPostAtOnce) {
  constexpr int kNodes = 3, kThreads = 4, kRounds = 40;
  constexpr size_t kSizes[] = {16, 1000, 70'000, 300'000};
  MakeNodes({.size = kNodes});
  const std::vector<std::byte> source = Pattern(kSizes[3], 11);
  std::atomic<int> failures = 0;
  for (auto& each : nodes_) {
    each->ReactBy([&, self = each.get()](const Event& event) {
      if (event.kind != Event::kGranted) return;
      const Status status = (*self)->Write(event.peer, event.tag, event.grant, std::span(source).first(event.bytes));
      if (!status.ok()) ++failures;
    });
    each->Start();
  }
  AwaitMesh();
  std::vector<std::vector<std::byte>> places(kNodes * kThreads * kRounds * kNodes);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < kNodes; ++rank) {
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, rank, thread] {
        for (int round = 0; round < kRounds; ++round) {
          for (Rank peer = 0; peer < kNodes; ++peer) {
            if (peer == rank) continue;
            const uint64_t id = ((rank * kThreads + thread) * kRounds + round) * kNodes + peer;
            places[id].resize(kSizes[(round + thread) % std::size(kSizes)]);
            if (!node(rank)->Grant(peer, {.msg_id = id}, places[id]).ok()) ++failures;
            const std::string body = std::to_string(round);
            if (!node(rank)->Send(peer, thread, AsBytes(body)).ok()) ++failures;
          }
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  constexpr size_t kEach = (kNodes - 1) * kThreads * kRounds;
  for (auto& each : nodes_) {
    each->Await(Event::kGrantEnded, kEach);
    each->Await(Event::kWriteEnded, kEach);
    each->Await(Event::kMessage, kEach);
  }
  EXPECT_EQ(failures, 0);
  for (auto& each : nodes_) {
    EXPECT_EQ(each->events(Event::kGrantEnded).size(), kEach);
    EXPECT_EQ(each->events(Event::kWriteEnded).size(), kEach);
    for (const Event& event : each->events(Event::kGrantEnded)) EXPECT_TRUE(event.status.ok()) << event.status;
    std::map<std::pair<Rank, uint32_t>, int> next;  // by peer and thread
    for (const Event& event : each->events(Event::kMessage)) {
      EXPECT_EQ(event.body, std::to_string(next[{event.peer, event.type}]++));
    }
  }
  for (const auto& place : places) EXPECT_TRUE(Same(place, std::span(source).first(place.size())));
}

TEST_P(ContractTest, ShutdownSendsWhatIsQueuedAndEndsInOrder) {
  StartNodes(2);
  constexpr size_t kBytes = 5'000'000;
  const PlaceTag tag{.msg_id = 1}, unused{.msg_id = 2}, back{.msg_id = 3};
  const std::vector<std::byte> source = Pattern(kBytes, 1);
  std::vector<std::byte> place(kBytes), unused_place(10), back_place(kBytes);
  ASSERT_TRUE(node(0)->Grant(1, unused, unused_place).ok());
  ASSERT_TRUE(node(0)->Grant(1, back, back_place).ok());
  Transfer(0, 1, tag, source, place);
  ASSERT_TRUE(node(0)->Send(1, 4, {}).ok());
  node(0)->Shutdown(1);
  EXPECT_EQ(node(0)->Send(1, 5, {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(node(0)->Grant(1, {.msg_id = 9}, unused_place).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(node(1).Get(Event::kGrantEnded, tag).status.ok());
  EXPECT_TRUE(Same(place, source));
  node(1).Await(Event::kMessage);

  // The other direction goes on.
  const RemoteGrant grant = node(1).Get(Event::kGranted, back).grant;
  ASSERT_TRUE(node(1)->Write(0, back, grant, source).ok());
  ASSERT_TRUE(node(1)->Send(0, 6, {}).ok());
  node(0).Await(Event::kMessage);
  EXPECT_TRUE(node(0).events(Event::kClosed).empty());
  EXPECT_TRUE(node(1).events(Event::kClosed).empty());
  node(1)->Shutdown(0);
  for (Rank rank : {0, 1}) {
    node(rank).Await(Event::kClosed);
    const Event last = node(rank).events().back();
    EXPECT_EQ(last.kind, Event::kClosed);
    EXPECT_EQ(last.status.code(), StatusCode::kCancelled) << last.status;
  }
  EXPECT_TRUE(node(0).Get(Event::kGrantEnded, back).status.ok());
  EXPECT_TRUE(Same(back_place, source));
  EXPECT_EQ(node(0).Get(Event::kGrantEnded, unused).status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(node(1)->Send(0, 7, {}).code(), StatusCode::kUnavailable);
}

TEST_P(ContractTest, ClientsComeAndGo) {
  StartNodes(2);
  for (int i = 0; i < 3; ++i) {
    TestNode client(world_->CreateClient(1), "job", -1), other(world_->CreateClient(1), "job", -1);
    for (TestNode* each : {&client, &other}) {
      each->Start();
      each->AwaitFrom(Event::kConnected, 1);
    }
    node(1).Await([](const Event& event) { return event.kind == Event::kConnected && event.peer >= kFirstClientRank; },
                  2 * (i + 1));
    std::set<Rank> ranks;
    for (const Event& event : node(1).events(Event::kConnected)) ranks.insert(event.peer);
    EXPECT_EQ(ranks.size(), 1u + 2 * (i + 1)) << "node 0 and each client have a rank of their own";
    std::vector<std::byte> place(1'000'000);
    const PlaceTag tag{.msg_id = static_cast<uint64_t>(i)};
    ASSERT_TRUE(client->Grant(1, tag, place).ok());
    const Event granted = node(1).Get(Event::kGranted, tag);
    const std::vector<std::byte> source = Pattern(place.size(), i);
    ASSERT_TRUE(node(1)->Write(granted.peer, tag, granted.grant, source).ok());
    EXPECT_TRUE(client.Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(Same(place, source));
    node(1).Get(Event::kWriteEnded, tag);  // the source goes away
    client->Shutdown(1);                   // one in order, the other just goes
    client.Await(Event::kClosed);
    EXPECT_EQ(client.events(Event::kClosed)[0].status.code(), StatusCode::kCancelled);
  }
  node(1).Await(Event::kClosed, 6);
  size_t in_order = 0;
  for (const Event& event : node(1).events(Event::kClosed)) {
    EXPECT_GE(event.peer, kFirstClientRank);
    in_order += event.status.code() == StatusCode::kCancelled;
  }
  EXPECT_EQ(in_order, 3u);
  ASSERT_TRUE(node(0)->Send(1, 3, {}).ok());
  node(1).Await(Event::kMessage);
}

TEST_P(ContractTest, WhatIsFlushedDoesNotWaitForTheHandler) {
  StartNodes(2);
  std::promise<void> arrived, returned;
  node(1).ReactBy([&arrived](const Event& event) {
    if (event.kind == Event::kMessage) arrived.set_value();
  });
  node(0)->Defer([&] {
    EXPECT_TRUE(node(0)->Send(1, 7, AsBytes("soon")).ok());
    node(0)->Flush(1);
    EXPECT_EQ(arrived.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    returned.set_value();
  });
  returned.get_future().wait();
  EXPECT_EQ(node(1).events(Event::kMessage)[0].body, "soon");
}

TEST_P(ContractTest, LastHeardIsTheTransportsClock) {
  clock_.Advance(1000);
  StartNodes({.size = 2, .clock = &clock_});
  clock_.Advance(50);
  ASSERT_TRUE(node(0)->Send(1, 0, {}).ok());
  node(1).Await(Event::kMessage);
  EXPECT_EQ(node(1)->LastHeardNs(0), 1050);
  EXPECT_EQ(node(0)->LastHeardNs(1), 1000);
}

TEST_P(ContractTest, LastSentIsTheTransportsClock) {
  clock_.Advance(1000);
  StartNodes({.size = 2, .clock = &clock_});
  const auto send = [this](Rank from, int64_t now_ns) {
    clock_.Advance(50);
    ASSERT_TRUE(node(from)->Send(1 - from, 0, {}).ok());
    node(1 - from).Await(Event::kMessage);
    // The peer may have a message before the thread that sent it has noted that; what it noted earlier in the same
    // tick is no sign. Behind an event of its own it has.
    std::promise<void> noted;
    node(from)->Defer([&noted] { noted.set_value(); });
    noted.get_future().wait();
    EXPECT_EQ(node(from)->LastSentNs(1 - from), now_ns);
  };
  send(1, 1050);  // and whatever it said at the start is noted
  send(0, 1100);
  EXPECT_EQ(node(1)->LastSentNs(0), 1050);  // who only hears has sent nothing
  EXPECT_EQ(node(0)->LastSentNs(5), 0);     // nobody
}

INSTANTIATE_TEST_SUITE_P(Transports, ContractTest, testing::ValuesIn(AllTransports()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp
