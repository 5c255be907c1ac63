// Setting queue pairs up: what is negotiated, in which order, and that a step that fails leaves nothing behind.
#include "test/unit/transport/verbs_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace hp {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(VerbsBringUp, GoesThroughTheStatesWithTheSettings) {
  VerbsPair pair({.settings = {.traffic_class = 106,
                               .service_level = 3,
                               .pkey_index = 2,
                               .timeout = 12,
                               .retry_count = 3,
                               .qps_per_connection = 2}});
  pair.Connect();
  const auto init = ModifiedTo(pair.host(0), IBV_QPS_INIT), rtr = ModifiedTo(pair.host(0), IBV_QPS_RTR),
             rts = ModifiedTo(pair.host(0), IBV_QPS_RTS), peer_rts = ModifiedTo(pair.host(1), IBV_QPS_RTS);
  ASSERT_EQ(init.size(), 3u);
  ASSERT_EQ(rtr.size(), 3u);
  ASSERT_EQ(rts.size(), 3u);
  EXPECT_EQ(init[0].qp_access_flags, 0u) << "the control queue pair lets nobody write";
  EXPECT_EQ(init[1].qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
  EXPECT_EQ(init[2].qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(init[i].pkey_index, 2);
    EXPECT_EQ(rtr[i].ah_attr.grh.sgid_index, 3) << "127.0.0.1 over RoCE v2";
    EXPECT_EQ(rtr[i].ah_attr.grh.traffic_class, 106);
    EXPECT_EQ(rtr[i].ah_attr.sl, 3);
    EXPECT_EQ(rtr[i].rq_psn, peer_rts[i].sq_psn);
    EXPECT_EQ(rts[i].timeout, 12);
    EXPECT_EQ(rts[i].retry_cnt, 3);
    EXPECT_EQ(rts[i].rnr_retry, 7);
  }
  std::set<uint32_t> numbers;
  for (const ibv_qp_attr& attributes : rts) numbers.insert(attributes.sq_psn);
  EXPECT_EQ(numbers.size(), 3u) << "PSNs are random";
}

TEST(VerbsBringUp, ADeadPeerIsNoticedWithinThreeSecondsByDefault) {
  const VerbsSettings settings;
  EXPECT_LT(4.096e-6 * (1 << settings.timeout) * (settings.retry_count + 1) * 4, 3);
  EXPECT_LT(settings.retry_count, 7) << "for ever, on some devices";
}

TEST(VerbsBringUp, TheSmallerMtuIsUsed) {
  FakeVerbs::Device small = FakeVerbs::Roce();
  small.mtu = IBV_MTU_1024;
  VerbsPair pair({.devices = {{{FakeVerbs::Roce()}, {small}}}});
  pair.Connect();
  for (Rank rank : {0, 1}) {
    for (const ibv_qp_attr& attributes : ModifiedTo(pair.host(rank), IBV_QPS_RTR)) {
      EXPECT_EQ(attributes.path_mtu, IBV_MTU_1024);
    }
  }
}

TEST(VerbsBringUp, InfiniBandGoesByLid) {
  FakeVerbs::Device device;
  device.ethernet = false;
  device.gids = {{GidOfAddress("fe80::5"), 0, 0}};
  device.lid = 5;
  VerbsPair pair({.devices = {{{device}, {device}}}});
  pair.Connect();
  for (const ibv_qp_attr& attributes : ModifiedTo(pair.host(0), IBV_QPS_RTR)) {
    EXPECT_EQ(attributes.ah_attr.dlid, 5);
    EXPECT_EQ(attributes.ah_attr.is_global, 0);
  }
}

// Fails each call in turn, on either side, until none is left to fail.
class VerbsBringUpFailure : public testing::TestWithParam<std::tuple<Rank, QpSetup>> {};

TEST_P(VerbsBringUpFailure, AnyStepEndsCleanly) {
  const auto [failing, setup] = GetParam();
  bool went_through = false;
  int failed_at_start = 0, failed_to_connect = 0;
  for (int call = 0; !went_through; ++call) {
    SCOPED_TRACE(call);
    ASSERT_LT(call, 100);
    VerbsPair pair({.settings = {.qps_per_connection = 2, .setup = setup, .inline_bytes = 0}});
    pair.host(failing).FailCall(call);
    ASSERT_TRUE(pair.Make(1 - failing).ok());
    if (const Status made = pair.Make(failing); !made.ok()) {
      EXPECT_EQ(made.code() == StatusCode::kFailedPrecondition || made.code() == StatusCode::kResourceExhausted, true)
          << made;
      EXPECT_EQ(pair.host(failing).live(), 0) << made;
      ++failed_at_start;
      continue;
    }
    for (Rank rank : {0, 1}) pair.node(rank).Start();
    const auto decided = [](const Event& event) {
      return event.kind == Event::kConnected || event.kind == Event::kConnectFailed;
    };
    for (Rank rank : {0, 1}) pair.node(rank).Await(decided);
    for (Rank rank : {0, 1}) EXPECT_EQ(pair.node(rank).events().size(), 1u);
    const Event here = pair.node(failing).events()[0], there = pair.node(1 - failing).events()[0];
    EXPECT_EQ(here.kind, there.kind);
    went_through = here.kind == Event::kConnected;
    if (went_through) break;
    ++failed_to_connect;
    EXPECT_THAT(there.status.message(), HasSubstr("on the other side")) << there.status;
    EXPECT_THAT(here.status.message(), Not(HasSubstr("on the other side"))) << here.status;
    EXPECT_EQ(pair.node(failing)->Send(1 - failing, 1, {}).code(), StatusCode::kUnavailable);
  }
  EXPECT_GE(failed_at_start, 10);  // list, open, ask, domain, channel, buffers, two receive queues
  // Completion queue, three queue pairs and their states, buffers; librdmacm: its channel, and for each queue pair the
  // identifier, address, route and connection, or to accept it.
  EXPECT_GE(failed_to_connect, setup == QpSetup::kTcp ? 12 : 27);
}

INSTANTIATE_TEST_SUITE_P(Sides, VerbsBringUpFailure,
                         testing::Combine(testing::Values(0, 1), testing::Values(QpSetup::kTcp, QpSetup::kRdmaCm)));

// The transport of node 0 lives on while node 1 goes and comes again; meanwhile node 0's addresses have moved.
TEST(VerbsBringUp, AReconnectLooksItsGidUpAgainAndGetsNewKeys) {
  VerbsPair pair;
  pair.Connect();
  std::vector<std::byte> arena(5000);
  auto region = pair.node(0)->Register(arena);
  ASSERT_TRUE(region.ok());
  const std::vector<std::byte> source = Pattern(arena.size(), 1);
  pair.Transfer(1, 0, {.msg_id = 1}, source, arena);
  const FakeMr first = pair.host(0).registrations().back();
  pair.Close(1);
  pair.node(0).Await(Event::kClosed);

  std::vector<GidEntry> moved = FakeVerbs::Roce().gids;
  for (GidEntry& entry : moved) entry.index += 4;
  pair.host(0).SetGids(moved);
  ASSERT_TRUE(pair.Make(1).ok());
  pair.node(1).Start();
  pair.node(0).Await(Event::kConnected, 2);
  pair.node(1).Await(Event::kConnected);
  std::fill(arena.begin(), arena.end(), std::byte{0});
  pair.Transfer(1, 0, {.msg_id = 2}, source, arena);
  EXPECT_TRUE(Same(arena, source));
  const auto rtr = ModifiedTo(pair.host(0), IBV_QPS_RTR);
  ASSERT_EQ(rtr.size(), 4u);
  EXPECT_EQ(rtr[0].ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(rtr[2].ah_attr.grh.sgid_index, 7);
  const FakeMr second = pair.host(0).registrations().back();
  EXPECT_EQ(second.addr, arena.data());
  EXPECT_NE(second.rkey, first.rkey);
  EXPECT_FALSE(pair.fabric().CouldWrite(first.rkey, reinterpret_cast<uint64_t>(arena.data()), 1));
}

TEST(VerbsBringUp, ACompletionQueueThatCantHoldAllIsRefused) {
  FakeVerbs::Device device = FakeVerbs::Roce();
  device.max_cqe = 1000;
  FakeFabric fabric;
  FakeVerbs verbs(&fabric, {device});
  VerbsOptions options;
  options.verbs = &verbs;
  const auto made = MakeVerbsTransport(options, nullptr);
  EXPECT_THAT(made.status().message(), HasSubstr("a completion queue holds 1000, and 2816 completions can be"));
}

TEST(VerbsBringUp, WithoutADeviceItSaysSo) {
  FakeFabric fabric;
  FakeVerbs verbs(&fabric, {});
  VerbsOptions options;
  options.verbs = &verbs;
  const auto made = MakeVerbsTransport(options, nullptr);
  EXPECT_EQ(made.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(made.status().message(), HasSubstr("no RDMA device here"));
}

TEST(VerbsBringUp, AutoTakesRdmaWhereBothHaveItElseTcp) {
  for (const bool both : {true, false}) {
    VerbsPair pair(
        {.fall_back = true,
         .devices = {{{FakeVerbs::Roce()}, both ? std::vector{FakeVerbs::Roce()} : std::vector<FakeVerbs::Device>{}}}});
    pair.Connect();
    std::vector<std::byte> place(500'000);
    const std::vector<std::byte> source = Pattern(place.size(), 1);
    pair.Transfer(0, 1, {.msg_id = 1}, source, place);
    EXPECT_TRUE(Same(place, source));
    EXPECT_EQ(pair.fabric().counts().posts > 0, both);
  }
}

TEST(VerbsBringUp, AutoFallsBackWhenQueuePairsCantBeConnected) {
  FakeVerbs::Device infiniband;
  infiniband.ethernet = false;
  infiniband.gids = {{GidOfAddress("fe80::5"), 0, 0}};
  VerbsPair pair({.fall_back = true, .devices = {{{FakeVerbs::Roce()}, {infiniband}}}});
  pair.Connect();
  std::vector<std::byte> place(5000);
  const std::vector<std::byte> source = Pattern(place.size(), 1);
  pair.Transfer(1, 0, {.msg_id = 1}, source, place);
  EXPECT_TRUE(Same(place, source));
  EXPECT_EQ(pair.fabric().counts().posts, 0);
}

}  // namespace
}  // namespace hp
