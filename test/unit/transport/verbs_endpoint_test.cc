// What an endpoint posts, what it makes of completions, and what a failure leaves behind.
#include "test/unit/transport/verbs_pair.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <optional>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr size_t kActivation = 4 << 20;

TEST(VerbsEndpoint, AnActivationTakesOneDoorbellAndOneCompletionForEachQueuePair) {
  for (const int qps : {1, 4}) {
    VerbsPair pair({.settings = {.qps_per_connection = qps}});
    pair.Connect();
    std::vector<std::byte> place(kActivation);
    const std::vector<std::byte> source = Pattern(kActivation, 1);
    const auto place_region = pair.node(1)->Register(place);
    ASSERT_TRUE(place_region.ok());
    const auto source_region = pair.node(0)->Register({const_cast<std::byte*>(source.data()), source.size()});
    ASSERT_TRUE(source_region.ok());
    const PlaceTag tag{.msg_id = 1};
    const RemoteGrant grant = pair.Grant(1, 0, tag, place);
    const size_t registrations = pair.host(0).registrations().size();
    pair.fabric().ResetCounts();
    ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, source).ok());
    EXPECT_TRUE(pair.node(1).Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(pair.node(0).Get(Event::kWriteEnded, tag).status.ok());
    const FakeFabric::Counts counts = pair.fabric().counts();
    EXPECT_EQ(counts.posts, qps) << "doorbells of the sender";
    EXPECT_EQ(counts.requests, qps);
    EXPECT_EQ(counts.completions, 2 * qps) << "one for each queue pair on each side";
    EXPECT_EQ(counts.receive_posts, 0) << "the receiver posts again by the hundred";
    EXPECT_EQ(pair.host(0).registrations().size(), registrations) << "nothing is registered for a write";
    EXPECT_TRUE(Same(place, source));
  }
}

TEST(VerbsEndpoint, LargeWritesAreCutAndOnlyTheLastRequestOfAPartIsSignalled) {
  FakeVerbs::Device device = FakeVerbs::Roce();
  device.max_message = 100'000;
  VerbsPair pair({.settings = {.qps_per_connection = 2}, .devices = {{{device}, {device}}}});
  pair.Connect();
  std::vector<std::byte> place(kActivation);
  const std::vector<std::byte> source = Pattern(kActivation, 1);
  const PlaceTag tag{.msg_id = 1};
  const RemoteGrant grant = pair.Grant(1, 0, tag, place);
  pair.fabric().ResetCounts();
  ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, source).ok());
  EXPECT_TRUE(pair.node(0).Get(Event::kWriteEnded, tag).status.ok());
  const FakeFabric::Counts counts = pair.fabric().counts();
  EXPECT_EQ(counts.requests, 2 * 21) << "2 MiB in 100,000 bytes";
  EXPECT_EQ(counts.posts, 2);
  EXPECT_EQ(counts.completions, 4);
  pair.node(1).Get(Event::kGrantEnded, tag);
  EXPECT_TRUE(Same(place, source));
}

TEST(VerbsEndpoint, APlaceIsAMemoryRegionOfItsOwnUntilTheConnectionEnds) {
  VerbsPair pair;
  pair.Connect();
  std::vector<std::byte> arena(1 << 20);
  auto region = pair.node(1)->Register(arena);
  ASSERT_TRUE(region.ok());
  const size_t before = pair.host(1).registrations().size();
  const std::vector<std::byte> source = Pattern(5000, 1);
  for (uint64_t id = 0; id < 3; ++id) pair.Transfer(0, 1, {.msg_id = id}, source, std::span(arena).subspan(4096, 5000));
  const std::vector<FakeMr> made = pair.host(1).registrations();
  ASSERT_EQ(made.size(), before + 1) << "registered at its first grant, kept for the next";
  const FakeMr& arena_mr = made[before - 1];
  EXPECT_EQ(arena_mr.length, arena.size());
  EXPECT_EQ(arena_mr.access, IBV_ACCESS_RELAXED_ORDERING) << "read by our own requests only";
  const FakeMr& place = made.back();
  EXPECT_EQ(place.addr, arena.data() + 4096);
  EXPECT_EQ(place.length, 5000u);
  EXPECT_EQ(place.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  for (const FakeMr& mr : made) EXPECT_EQ(mr.access & IBV_ACCESS_REMOTE_READ, 0);
  const auto address = reinterpret_cast<uint64_t>(place.addr);
  EXPECT_TRUE(pair.fabric().CouldWrite(place.rkey, address, 5000));
  EXPECT_FALSE(pair.fabric().CouldWrite(place.rkey, address, 5001));
  pair.Close(0);
  pair.node(1).Await(Event::kClosed);
  EXPECT_FALSE(pair.fabric().CouldWrite(place.rkey, address, 1)) << "the key ends with the connection";
}

// A write of our own that claims to be longer: what a confused peer would post.
TEST(VerbsEndpoint, AWriteBeyondItsPlaceIsRefusedByTheAdapter) {
  VerbsPair pair({.settings = {.inline_bytes = 0}});
  pair.Connect();
  std::vector<std::byte> arena(8192, std::byte{0x55});
  auto region = pair.node(1)->Register(arena);
  ASSERT_TRUE(region.ok());
  const std::vector<std::byte> source = Pattern(4096, 1);
  const PlaceTag tag{.msg_id = 812, .channel = 3};
  const RemoteGrant grant = pair.Grant(1, 0, tag, std::span(arena).first(4096));
  pair.fabric().on_request = [](const FakeQp&, const ibv_send_wr& request) {
    // As a test of an adapter would: the address is moved, so that the end lies beyond the place.
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) const_cast<ibv_send_wr&>(request).wr.rdma.remote_addr += 1;
    return WireFault{};
  };
  ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, source).ok());
  const Event ended = pair.node(0).Get(Event::kWriteEnded, tag);
  EXPECT_EQ(ended.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(ended.status.message(), HasSubstr("msg 812 channel 3: remote access error"));
  EXPECT_THAT(ended.status.message(), HasSubstr("peer node1"));
  EXPECT_EQ(pair.node(1).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kUnavailable);
  for (Rank rank : {0, 1}) pair.node(rank).Await(Event::kClosed);
  EXPECT_TRUE(AllAre(arena, std::byte{0x55}));
}

TEST(VerbsEndpoint, EveryBadStatusFailsTheEndpointInWords) {
  const std::pair<ibv_wc_status, const char*> kCases[] = {
      {IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded"},
      {IBV_WC_RNR_RETRY_EXC_ERR, "receiver-not-ready retry counter exceeded"},
      {IBV_WC_LOC_PROT_ERR, "local protection error"},
      {IBV_WC_REM_OP_ERR, "remote operation error"},
  };
  for (const auto& [status, words] : kCases) {
    VerbsPair pair({.settings = {.qps_per_connection = 2}});
    pair.Connect();
    std::vector<std::byte> place(2 << 20), unwritten(100);
    const std::vector<std::byte> source = Pattern(place.size(), 1);
    const PlaceTag tag{.msg_id = 5}, open{.msg_id = 6};
    const RemoteGrant grant = pair.Grant(1, 0, tag, place);
    ASSERT_TRUE(pair.node(0)->Grant(1, open, unwritten).ok());
    pair.node(1).Get(Event::kGranted, open);
    pair.fabric().on_request = [status = status](const FakeQp&, const ibv_send_wr& request) {
      return request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? WireFault{WireFault::kFail, status} : WireFault{};
    };
    ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, source).ok());
    pair.node(0).Await(Event::kClosed);
    EXPECT_THAT(pair.node(0).events(Event::kClosed)[0].status.message(), HasSubstr(words));
    EXPECT_EQ(pair.node(0).events(Event::kWriteEnded).size(), 1u);
    EXPECT_EQ(pair.node(0).events(Event::kGrantEnded).size(), 1u);
    EXPECT_EQ(pair.node(0).events().back().kind, Event::kClosed);
    pair.node(1).Await(Event::kClosed);
    EXPECT_EQ(pair.node(1).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kUnavailable);
  }
}

// A failure shows in several places at once, in any order: what is reported is the one that says most.
class VerbsCause : public testing::Test {
 protected:
  /// Node 0 with writes under way on both data queue pairs. @param wait_ms for a better word.
  void Start(int wait_ms) {
    pair_.emplace(VerbsPair::Options{
        .settings = {.qps_per_connection = 2, .cause_wait_ms = wait_ms, .inline_bytes = 0, .split_bytes = 4096}});
    pair_->Connect();
    const RemoteGrant grant = pair_->Grant(1, 0, {.msg_id = 812}, place_);
    pair_->fabric().Hold();
    ASSERT_TRUE(pair_->node(0)->Write(1, {.msg_id = 812}, grant, source_).ok());
    qps_ = pair_->host(0).qp_numbers();
    ASSERT_EQ(qps_.size(), 3u);
  }
  /// Waits until node 0 has seen all that there is.
  void AwaitHeard() {
    while (!pair_->fabric().Heard(qps_[1])) std::this_thread::yield();
  }
  std::string Reported() {
    pair_->node(0).Await(Event::kClosed);
    return pair_->node(0).events(Event::kClosed)[0].status.message();
  }

  std::vector<std::byte> place_ = std::vector<std::byte>(20'000);
  const std::vector<std::byte> source_ = Pattern(20'000, 1);
  std::optional<VerbsPair> pair_;
  std::vector<uint32_t> qps_;  // control, then data
};

TEST_F(VerbsCause, ACompletionThatSaysWhyAheadOfAnEventThatCameFirst) {
  Start(/*wait_ms=*/60'000);
  pair_->fabric().Raise(qps_[1], IBV_EVENT_QP_LAST_WQE_REACHED);
  AwaitHeard();
  pair_->fabric().EndRequest(qps_[1], IBV_WC_REM_ACCESS_ERR);
  EXPECT_THAT(Reported(), HasSubstr("msg 812 channel 0: remote access error"));
}

TEST_F(VerbsCause, ACompletionThatSaysWhyAheadOfAFlushedOneThatCameFirst) {
  Start(/*wait_ms=*/60'000);
  pair_->fabric().EndRequest(qps_[1], IBV_WC_WR_FLUSH_ERR);
  AwaitHeard();
  pair_->fabric().EndRequest(qps_[2], IBV_WC_RETRY_EXC_ERR);
  EXPECT_THAT(Reported(), HasSubstr("msg 812 channel 0: transport retry counter exceeded"));
}

TEST_F(VerbsCause, AnEventThatSaysWhyAheadOfOneThatDoesNot) {
  Start(/*wait_ms=*/60'000);
  pair_->fabric().Raise(qps_[1], IBV_EVENT_QP_LAST_WQE_REACHED);
  AwaitHeard();
  pair_->fabric().Raise(qps_[1], IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_THAT(Reported(), HasSubstr("the peer accessed memory without permission"));
}

TEST_F(VerbsCause, ThePeersWordAheadOfAFlushedRequest) {
  Start(/*wait_ms=*/60'000);
  pair_->fabric().EndRequest(qps_[1], IBV_WC_WR_FLUSH_ERR);
  AwaitHeard();
  pair_->fabric().Break(pair_->host(1).qp_numbers()[0]);
  EXPECT_THAT(Reported(), HasSubstr("failed: node0"));
  EXPECT_THAT(Reported(), HasSubstr("queue pair failed"));
}

TEST_F(VerbsCause, WhereNothingSaysMoreTheSymptomIsReported) {
  Start(/*wait_ms=*/20);
  pair_->fabric().Raise(qps_[1], IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_THAT(Reported(), HasSubstr("queue pair is in the error state"));
}

TEST(VerbsEndpoint, AWriteWhoseCompletionIsLostKeepsItsSourceUntilTheConnectionEnds) {
  VerbsPair pair;
  pair.Connect();
  pair.fabric().on_request = [](const FakeQp&, const ibv_send_wr& request) {
    return request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? WireFault{WireFault::kDropCompletion} : WireFault{};
  };
  std::vector<std::byte> place(5000);
  const std::vector<std::byte> source = Pattern(place.size(), 1);
  const PlaceTag tag{.msg_id = 5};
  const RemoteGrant grant = pair.Grant(1, 0, tag, place);
  ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, source).ok());
  EXPECT_TRUE(pair.node(1).Get(Event::kGrantEnded, tag).status.ok());
  ASSERT_TRUE(pair.node(1)->Send(0, 1, {}).ok());
  pair.node(0).Await(Event::kMessage);
  EXPECT_TRUE(pair.node(0).events(Event::kWriteEnded).empty());
  pair.Close(1);
  pair.node(0).Await(Event::kClosed);
  EXPECT_EQ(pair.node(0).events(Event::kWriteEnded).size(), 1u);
}

// A write is on the wire while the receiver's endpoint fails; the place is used again for something else.
TEST(VerbsEndpoint, ALateWriteFindsNobodyElsesTensor) {
  VerbsPair pair;
  pair.Connect();
  std::vector<std::byte> arena(100'000);
  auto region = pair.node(1)->Register(arena);
  ASSERT_TRUE(region.ok());
  const std::vector<std::byte> source = Pattern(arena.size(), 1);
  const PlaceTag tag{.msg_id = 5};
  const RemoteGrant grant = pair.Grant(1, 0, tag, arena);
  const FakeMr place = pair.host(1).registrations().back();
  pair.fabric().Hold();
  ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, source).ok());
  pair.fabric().Break(pair.host(1).qp_numbers()[0]);  // the control queue pair: the data one is healthy
  EXPECT_EQ(pair.node(1).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kUnavailable);
  std::fill(arena.begin(), arena.end(), std::byte{0xEE});
  EXPECT_FALSE(pair.fabric().CouldWrite(place.rkey, reinterpret_cast<uint64_t>(arena.data()), 1));
  pair.fabric().Release();
  EXPECT_NE(pair.node(0).Get(Event::kWriteEnded, tag).status.code(), StatusCode::kOk);
  pair.node(0).Await(Event::kClosed);
  EXPECT_TRUE(AllAre(arena, std::byte{0xEE}));
}

TEST(VerbsEndpoint, AnIdleQueuePairThatFailsIsNoticed) {
  VerbsPair pair;
  pair.Connect();
  pair.fabric().Break(pair.host(0).qp_numbers().back());
  for (Rank rank : {0, 1}) pair.node(rank).Await(Event::kClosed);
  EXPECT_THAT(pair.node(0).events(Event::kClosed)[0].status.message(), HasSubstr("queue pair failed"));
}

// The immediates of a grant whose parts go over several queue pairs come in any order; so do those of two writes.
TEST(VerbsEndpoint, WritesAreReportedInOrderWhateverTheQueuePairsDo) {
  VerbsPair pair({.settings = {.qps_per_connection = 4, .split_bytes = 4096}, .delayed = true});
  pair.Connect();
  constexpr uint64_t kWrites = 40;
  std::vector<std::vector<std::byte>> places(kWrites);
  const std::vector<std::byte> source = Pattern(64 << 10, 3);
  std::vector<RemoteGrant> grants;
  for (uint64_t id = 0; id < kWrites; ++id) {
    places[id].resize(id % 3 == 0 ? 1000 : 20'000 + id);
    grants.push_back(pair.Grant(1, 0, {.msg_id = id}, places[id]));
  }
  for (uint64_t id = 0; id < kWrites; ++id) {
    ASSERT_TRUE(pair.node(0)->Write(1, {.msg_id = id}, grants[id], std::span(source).first(places[id].size())).ok());
  }
  pair.node(1).Await(Event::kGrantEnded, kWrites);
  const std::vector<Event> ended = pair.node(1).events(Event::kGrantEnded);
  for (uint64_t id = 0; id < kWrites; ++id) {
    EXPECT_EQ(ended[id].tag.msg_id, id);
    EXPECT_TRUE(Same(places[id], std::span(source).first(places[id].size())));
  }
}

TEST(VerbsEndpoint, AnImmediateThatFitsNoGrantFailsTheConnection) {
  VerbsPair pair;
  pair.Connect();
  std::vector<std::byte> place(100);
  const PlaceTag tag{.msg_id = 5};
  const RemoteGrant grant = pair.Grant(1, 0, tag, place);
  pair.fabric().on_request = [](const FakeQp&, const ibv_send_wr& request) {
    auto& changed = const_cast<ibv_send_wr&>(request);
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) changed.imm_data = htonl(ntohl(changed.imm_data) + 1);
    return WireFault{};
  };
  ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, Pattern(100, 1)).ok());
  pair.node(1).Await(Event::kClosed);
  EXPECT_THAT(pair.node(1).events(Event::kClosed)[0].status.message(),
              HasSubstr("protocol error: a write to grant 0.2, not open"));
  EXPECT_EQ(pair.node(1).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kUnavailable);
}

// The receives of all peers are in one queue for each kind of queue pair: a peer that breaks the rule may not spoil
// them.
TEST(VerbsEndpoint, AMessageOnADataQueuePairCostsThatConnectionOnly) {
  VerbsPair pair({.others = 1});
  pair.Connect();
  const PlaceTag tag{.msg_id = 5};
  const RemoteGrant grant = pair.Grant(1, 0, tag, {});
  pair.fabric().on_request = [](const FakeQp&, const ibv_send_wr& request) {
    auto& changed = const_cast<ibv_send_wr&>(request);
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) changed.opcode = IBV_WR_SEND;
    return WireFault{};
  };
  ASSERT_TRUE(pair.node(0)->Write(1, tag, grant, {}).ok());
  pair.node(1).AwaitFrom(Event::kClosed, 0);
  EXPECT_THAT(pair.node(1).events(Event::kClosed)[0].status.message(),
              HasSubstr("protocol error: a message on a data"));
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(pair.node(2)->Send(1, 7, {}).ok());
  pair.node(1).AwaitFrom(Event::kMessage, 2, 2000);
}

TEST(VerbsEndpoint, TooLittleLockedMemoryGetsAdvice) {
  VerbsPair pair;
  ASSERT_TRUE(pair.Make(0).ok());
  pair.host(0).FailCall(static_cast<int>(pair.host(0).calls().size()));
  std::vector<std::byte> arena(1 << 20);
  const auto region = pair.node(0)->Register(arena);
  EXPECT_EQ(region.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(region.status().message(), HasSubstr("can't register 1024 KiB of memory: Cannot allocate memory"));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (limit.rlim_cur == RLIM_INFINITY) return;
  EXPECT_THAT(region.status().message(), HasSubstr("(RLIMIT_MEMLOCK): raise it with `ulimit -l unlimited`"));
}

}  // namespace
}  // namespace hp
