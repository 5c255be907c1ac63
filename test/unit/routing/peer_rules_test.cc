// What a client and a node may send, and that nothing else passes.
#include "scheduler/control/peer_rules.h"

#include "scheduler/control/boundary_requests.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/membership.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/order_text.h"
#include "scheduler/control/slice_tag.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Rank kConv0 = 0, kConv1 = 1, kShard1 = 2, kShard0 = 3, kClient = kFirstClientRank;

class PeerRulesTest : public testing::Test {
 protected:
  /// Those of an assembled node, which resumed at iteration 3.
  std::unique_ptr<PeerRules> Rules(Rank self) {
    auto rules = std::make_unique<PeerRules>(table_, self);
    rules->SetPlan(job_.get(), 3);
    return rules;
  }
  /// The grant that the rules of `self` expect for a tensor from `self` to `peer`.
  void ExpectGrants(Rank self, Rank peer) {
    const auto rules = Rules(self);
    int found = 0;
    for (bool train : {true, false}) {
      for (const PortPlan& port : job_->node(self, train ? caffe::TRAIN : caffe::TEST).ports()) {
        const MsgId id = MsgId::Make(5, train, 1, self == kConv1 ? 1 : 0);
        if (port.landing || port.peer(TurnOf(id, 2)) != peer) continue;
        ++found;
        const PlaceTag tag{id.bits, port.channel};
        const size_t bytes = job_->schedule().SamplesOfId(id).rows * port.row_bytes;
        EXPECT_TRUE(rules->CheckGrant(peer, tag, bytes, 0).ok()) << rules->CheckGrant(peer, tag, bytes, 0);
        for (size_t wrong : {bytes - 1, bytes + 1, size_t{0}, std::numeric_limits<size_t>::max()}) {
          EXPECT_THAT(rules->CheckGrant(peer, tag, wrong, 0).message(), HasSubstr("expected"));
        }
        EXPECT_FALSE(rules->CheckGrant(peer, {id.bits, port.channel + 100}, bytes, 0).ok()) << "another tensor";
        EXPECT_FALSE(rules->CheckGrant(kClient, tag, bytes, 0).ok());
        for (const MsgId other :
             {MsgId::Make(2, train, 1, id.replica()), MsgId::Make(11, train, 1, id.replica()),
              MsgId::Make(5, train, 1000, id.replica()), MsgId::Make(5, train, 1, 2), MsgId::Make(4, false, 1, 0)}) {
          EXPECT_FALSE(rules->CheckGrant(peer, {other.bits, port.channel}, bytes, 0).ok()) << other.bits;
        }
      }
    }
    EXPECT_GT(found, 0) << self << " to " << peer;
  }
  LabelsMessage Labels(int64_t first_row, int count) {
    LabelsMessage labels;
    labels.set_clock(4);
    labels.set_phase(0);
    labels.set_batch(0);
    labels.set_first_row(first_row);
    for (int i = 0; i < count; ++i) labels.add_label(1);
    return labels;
  }

  const RoutingTable table_ = MakeTable(kTable);
  const std::unique_ptr<JobPlan> job_ = SmallJob(table_);
};

TEST_F(PeerRulesTest, AClientMayAskForWeightsAndNothingElse) {
  const auto first = Rules(0), other = Rules(kShard0);
  EXPECT_TRUE(first->CheckMessage(kClient, kPullRequest, 0).ok());
  EXPECT_FALSE(first->CheckMessage(kClient, kPullRequest, 1).ok());
  EXPECT_FALSE(other->CheckMessage(kClient, kPullRequest, 0).ok());
  EXPECT_TRUE(first->CheckMessage(kClient, kStatusRequest, 0).ok());
  EXPECT_FALSE(first->CheckMessage(kClient, kStatusRequest, 1).ok());
  EXPECT_FALSE(other->CheckMessage(kClient, kStatusRequest, 0).ok());
  EXPECT_FALSE(first->CheckGranter(kClient).ok());
  EXPECT_TRUE(first->CheckGranter(kShard0).ok());
  for (uint32_t type = 0; type < 64; ++type) {
    if (type == kPullRequest || type == kStatusRequest) continue;
    for (size_t bytes : {0, 10}) EXPECT_FALSE(first->CheckMessage(kClient, type, bytes).ok()) << type;
  }
}

TEST_F(PeerRulesTest, WhoMayControlTheJobGivesOrders) {
  const auto first = Rules(0), other = Rules(kShard0);
  EXPECT_TRUE(first->CheckMessage(kFirstControllerRank, kOrderRequest, 10).ok());
  EXPECT_TRUE(first->CheckMessage(kFirstControllerRank, kStatusRequest, 0).ok());
  EXPECT_FALSE(first->CheckMessage(kFirstControllerRank, kOrderRequest, 1000).ok());
  EXPECT_FALSE(other->CheckMessage(kFirstControllerRank, kOrderRequest, 10).ok());
  EXPECT_FALSE(first->CheckMessage(kFirstControllerRank, kVerdictMessage, 10).ok());
  const auto fits = [](const std::string& text) { return PeerRules::CheckOrder(Parse<JobOrder>(text)).ok(); };
  for (const char* good : {"kind: STOP", "kind: SNAPSHOT", "kind: RATE base_lr: 0.1", "kind: TRACE trace_on: false"})
    EXPECT_TRUE(fits(good)) << good;
  for (const char* bad : {"", "kind: RATE", "kind: RATE base_lr: -1", "kind: RATE base_lr: inf",
                          "kind: RATE base_lr: nan", "kind: TRACE"})
    EXPECT_FALSE(fits(bad)) << bad;
}

TEST_F(PeerRulesTest, AnOrderHasRoomForWhoGivesIt) {
  JobOrder order = Parse<JobOrder>("kind: RATE base_lr: 0.001 trace_on: true");
  for (auto* text : {order.mutable_giver()->mutable_user(), order.mutable_giver()->mutable_host(),
                     order.mutable_giver()->mutable_program()}) {
    *text = std::string(kMaxGiverText, 'x');
  }
  order.mutable_giver()->set_process(std::numeric_limits<int32_t>::max());
  EXPECT_TRUE(PeerRules::CheckOrder(order).ok());
  EXPECT_TRUE(Rules(0)->CheckMessage(kFirstControllerRank, kOrderRequest, order.ByteSizeLong()).ok());
}

TEST_F(PeerRulesTest, AStatusHasItsNumbersInRange) {
  const auto first = Rules(0);
  int64_t clock = 2;
  const auto fits = [&](const std::string& text) {
    IterationReport report;
    report.set_clock(++clock);
    *report.mutable_node_status() = Parse<NodeStatus>(text);
    return first->CheckReport(kConv1, report, clock).ok();
  };
  EXPECT_TRUE(fits("at_ns: 5 computing_ns: 4 waiting_ns: 1 memory_bytes: 7 last_warning: \"w\" sent_to_bytes: 0"));
  for (const char* bad :
       {"at_ns: -1", "waiting_ns: -1", "solvers_bound: -1", "memory_bytes: -1", "sent_bytes: -1", "sent_to_bytes: -1"})
    EXPECT_FALSE(fits(bad)) << bad;
  EXPECT_FALSE(fits("last_warning: \"" + std::string(2000, 'w') + "\""));
  EXPECT_TRUE(fits("line { time_s: 5 text: \"" + std::string(256, 'l') + "\" }"));
  EXPECT_FALSE(fits("line { text: \"" + std::string(257, 'l') + "\" }"));
  EXPECT_FALSE(fits("line { time_s: -1 }"));
  std::string lines;
  for (int i = 0; i < 65; ++i) lines += "line {} ";
  EXPECT_FALSE(fits(lines));
  std::string waits;
  for (int i = 0; i < 40; ++i) waits += "waiting_ns: 1 ";
  EXPECT_FALSE(fits(waits));
  std::string sent;
  for (int i = 0; i < 40; ++i) sent += "sent_to_bytes: 1 ";
  EXPECT_FALSE(fits(sent)) << "more nodes than the table has";
}

TEST_F(PeerRulesTest, ANodeMaySendWhatItsPlaceHasItSend) {
  const auto conv0 = Rules(kConv0), conv1 = Rules(kConv1), shard0 = Rules(kShard0);
  EXPECT_TRUE(conv0->CheckMessage(kShard1, kIterationReportMessage, 100).ok());
  EXPECT_FALSE(conv1->CheckMessage(kShard1, kIterationReportMessage, 100).ok()) << "reports go to the first node";
  EXPECT_TRUE(conv1->CheckMessage(kConv0, kVerdictMessage, 100).ok());
  EXPECT_FALSE(conv1->CheckMessage(kShard0, kVerdictMessage, 100).ok()) << "verdicts come from the first node";
  EXPECT_TRUE(shard0->CheckMessage(kConv1, kLabelsMessage, 100).ok());
  EXPECT_FALSE(shard0->CheckMessage(kShard1, kLabelsMessage, 100).ok()) << "it reads no records";
  EXPECT_TRUE(conv0->CheckMessage(kConv1, kRendezvousMessage, 100).ok());
  EXPECT_FALSE(conv0->CheckMessage(kShard1, kRendezvousMessage, 100).ok()) << "shards exchange nothing";
  EXPECT_FALSE(shard0->CheckMessage(kShard1, kRendezvousMessage, 100).ok());
  EXPECT_TRUE(conv0->CheckMessage(kConv1, MemberType(MemberMessage::kHeartbeat), 0).ok());
  EXPECT_FALSE(conv0->CheckMessage(kConv1, MemberType(MemberMessage::kBye), 1).ok());
  EXPECT_FALSE(conv0->CheckMessage(kConv1, MemberType(MemberMessage::kLost), 1 << 20).ok());
  EXPECT_FALSE(conv0->CheckMessage(kConv1, kIterationReportMessage, (1 << 20) + 1).ok());
  for (uint32_t type : {0u, 9u, static_cast<uint32_t>(kPullRequest), static_cast<uint32_t>(kPullChunk), ~0u}) {
    EXPECT_FALSE(conv0->CheckMessage(kConv1, type, 0).ok()) << type;
  }
}

TEST_F(PeerRulesTest, ARendezvousIsBounded) {
  const auto conv0 = Rules(kConv0);
  int sent = 0;
  while (sent < 1000 && conv0->CheckMessage(kConv1, kRendezvousMessage, 256).ok()) ++sent;
  EXPECT_GE(sent, 8);
  EXPECT_LT(sent, 100);
}

TEST_F(PeerRulesTest, WhatIsKeptForANodeThatIsNotReadyIsBounded) {
  PeerRules shard(table_, kShard0);
  size_t bytes = 0;
  while (bytes <= PeerRules::kMaxEarlyBytes && shard.CheckMessage(kConv0, kLabelsMessage, 1 << 20).ok())
    bytes += 1 << 20;
  EXPECT_EQ(bytes, PeerRules::kMaxEarlyBytes);
  int messages = 0;
  while (messages <= PeerRules::kMaxEarlyMessages && shard.CheckMessage(kConv1, kStatisticsMessage, 0).ok()) ++messages;
  EXPECT_EQ(messages, PeerRules::kMaxEarlyMessages);
  shard.SetPlan(job_.get(), 0);
  EXPECT_TRUE(shard.CheckMessage(kConv1, kStatisticsMessage, 0).ok());
}

TEST_F(PeerRulesTest, AGrantIsForATensorThatIsWrittenThere) {
  ExpectGrants(kConv0, kShard0);
  ExpectGrants(kConv1, kShard1);
  ExpectGrants(kShard0, kShard1);
  EXPECT_FALSE(Rules(kConv0)->CheckGrant(kConv1, {MsgId::Make(5, true, 0, 0).bits, 0}, 64, 0).ok());
}

TEST_F(PeerRulesTest, AGrantForASliceIsOneOfTheFirstNodesForASliceThatLiesHere) {
  const auto rules = Rules(kShard0);
  ASSERT_EQ(job_->params().size(), 6u);  // conv1, ip1, ip2
  const size_t bytes = 25 * 36 * sizeof(float);
  for (int array : {0, 1}) EXPECT_TRUE(rules->CheckGrant(0, SliceTag(5, 2, array), bytes, 0).ok());
  EXPECT_FALSE(rules->CheckGrant(0, SliceTag(5, 2, 2), bytes, 0).ok()) << "SGD has one history";
  EXPECT_FALSE(rules->CheckGrant(0, SliceTag(5, 2, 0), bytes + 4, 0).ok());
  EXPECT_FALSE(rules->CheckGrant(kShard1, SliceTag(5, 2, 0), bytes, 0).ok()) << "it gathers nothing";
  EXPECT_FALSE(rules->CheckGrant(0, SliceTag(5, 0, 0), 4 * 9 * sizeof(float), 0).ok()) << "replica 0 has conv1";
  EXPECT_FALSE(rules->CheckGrant(0, SliceTag(5, 6, 0), bytes, 0).ok());
  EXPECT_FALSE(rules->CheckGrant(0, SliceTag(5, 1 << 28, 0), bytes, 0).ok());
  for (int64_t clock : {int64_t{-1}, int64_t{2}, int64_t{11}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_FALSE(rules->CheckGrant(0, SliceTag(clock, 2, 0), bytes, 0).ok()) << clock;
  }
}

// conv1 is the first node on another host.
TEST_F(PeerRulesTest, TheCopierOfSnapshotsGathersToo) {
  const RoutingTable table = MakeTable(std::string(kTable) + "snapshot_copies: 2");
  PeerRules shard(table, kShard0), first(table, kConv0);
  shard.SetPlan(job_.get(), 3);
  first.SetPlan(job_.get(), 3);
  const size_t bytes = 25 * 36 * sizeof(float);
  for (Rank gatherer : {0, 1}) EXPECT_TRUE(shard.CheckGrant(gatherer, SliceTag(5, 2, 1), bytes, 0).ok());
  EXPECT_FALSE(shard.CheckGrant(kShard1, SliceTag(5, 2, 1), bytes, 0).ok());
  EXPECT_TRUE(first.CheckMessage(kConv1, kSnapshotCopiedMessage, 10).ok());
  EXPECT_FALSE(first.CheckMessage(kShard0, kSnapshotCopiedMessage, 10).ok());
  EXPECT_FALSE(first.CheckMessage(kConv1, kSnapshotCopiedMessage, 1 << 20).ok());
  EXPECT_FALSE(shard.CheckMessage(kConv1, kSnapshotCopiedMessage, 10).ok());
  EXPECT_FALSE(Rules(kConv0)->CheckMessage(kConv1, kSnapshotCopiedMessage, 10).ok()) << "a table without copies";
  SnapshotCopied copied;
  for (const int64_t iteration : {3, 10}) {
    copied.set_iteration(iteration);
    EXPECT_TRUE(first.CheckCopied(copied).ok());
  }
  for (const int64_t iteration : {2, 11, -1}) {
    copied.set_iteration(iteration);
    EXPECT_FALSE(first.CheckCopied(copied).ok());
  }
}

TEST_F(PeerRulesTest, PartsOfSnapshotsGoToTheFirstNodeAlone) {
  const auto first = Rules(kConv0), other = Rules(kConv1);
  for (Rank owner : {kConv1, kShard0, kShard1}) {
    EXPECT_TRUE(first->CheckMessage(owner, kSnapshotPartMessage, 100).ok()) << owner;
    EXPECT_FALSE(first->CheckMessage(owner, kSnapshotPartMessage, (64 << 10) + 1).ok()) << owner;
    EXPECT_FALSE(other->CheckMessage(owner, kSnapshotPartMessage, 100).ok()) << owner;
  }
  for (Rank client : {kClient, kFirstControllerRank}) {
    EXPECT_FALSE(first->CheckMessage(client, kSnapshotPartMessage, 100).ok()) << client;
  }
}

TEST_F(PeerRulesTest, APartIsOfASnapshotOfThisRun) {
  const auto rules = Rules(kConv0);
  const auto check = [&](const std::string& text) { return rules->CheckPart(Parse<SnapshotPartWritten>(text)); };
  for (const char* good :
       {"iteration: 3 bytes: 10", "iteration: 10 bytes: 10", "iteration: 7", "iteration: 7 fault: \"disk full\"",
        "iteration: 7 bytes: 9223372036854775807 xxh64: 18446744073709551615"}) {
    EXPECT_TRUE(check(good).ok()) << good << ": " << check(good);
  }
  for (const char* bad : {"", "iteration: 2 bytes: 10", "iteration: 11 bytes: 10", "iteration: -1 bytes: 10",
                          "iteration: 9223372036854775807", "iteration: -9223372036854775808", "iteration: 7 bytes: -1",
                          "iteration: 7 bytes: -9223372036854775808", "iteration: 7 bytes: -1 fault: \"full\""}) {
    EXPECT_EQ(check(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(check("iteration: 11 bytes: 5").message(),
            "5 bytes of a snapshot of iteration 11, which the job does not have");
  EXPECT_EQ(check("iteration: 7 bytes: -1").message(), "-1 bytes of a part of the snapshot of iteration 7");
}

TEST_F(PeerRulesTest, AVerdictNamesAStartOrNone) {
  const auto rules = Rules(kShard0);
  EXPECT_TRUE(rules->CheckVerdict(Parse<Verdict>("clock: 3 owner_files: 1"), 5).ok());
  EXPECT_FALSE(rules->CheckVerdict(Parse<Verdict>("clock: 4 owner_files: -1"), 5).ok());
}

/// The rules of conv0, which writes to conv1 in the exchange of stage 0: places of 8, none and 12 bytes in each update.
class ExchangeRulesTest : public PeerRulesTest {
 protected:
  ExchangeRulesTest() { rules_.SetPlan(job_.get(), 3, {{.stage = 0, .granter = kConv1, .bytes = {8, 0, 12}}}); }
  Status Grant(uint64_t clock, uint32_t number, size_t bytes, Rank from = kConv1, int stage = 0) {
    return rules_.CheckGrant(from, ExchangeTag(stage, clock, number), bytes, reported_);
  }

  PeerRules rules_{table_, kConv0};
  int64_t reported_ = 0;
};

TEST_F(ExchangeRulesTest, EachPlaceOfAnUpdateIsGrantedOnceAndThenTheNext) {
  for (uint64_t clock : {3, 4, 5}) {
    reported_ = static_cast<int64_t>(clock);
    EXPECT_TRUE(Grant(clock, 2, 12).ok());
    EXPECT_THAT(Grant(clock, 2, 12).message(), HasSubstr("second grant for place 2"));
    EXPECT_THAT(Grant(clock + 1, 0, 8).message(), HasSubstr("expected")) << "ahead of its time";
    EXPECT_TRUE(Grant(clock, 0, 8).ok());
    EXPECT_FALSE(Grant(clock, 0, 8).ok());
  }
}

TEST_F(ExchangeRulesTest, APlaceHasTheSizeThatThePlanGives) {
  for (size_t bytes : {size_t{0}, size_t{4}, size_t{12}, std::numeric_limits<size_t>::max()}) {
    EXPECT_THAT(Grant(3, 0, bytes).message(), HasSubstr("expected 8"));
  }
  EXPECT_FALSE(Grant(3, 1, 0).ok()) << "there is none of this number";
  for (uint32_t number : {3u, ~0u}) EXPECT_FALSE(Grant(3, number, 8).ok()) << number;
  EXPECT_TRUE(Grant(3, 0, 8).ok()) << "none of these counted";
}

TEST_F(ExchangeRulesTest, OnlyTheNeighbourThatWeWriteToGrantsPlaces) {
  for (Rank other : {kShard0, kShard1, kClient}) EXPECT_FALSE(Grant(3, 0, 8, other).ok()) << other;
  for (int stage : {1, 2, 1 << 29}) EXPECT_FALSE(Grant(3, 0, 8, kConv1, stage).ok()) << stage;
  for (Rank self : {kConv1, kShard0}) {
    EXPECT_FALSE(Rules(self)->CheckGrant(kConv0, ExchangeTag(0, 3, 0), 8, 0).ok()) << "it exchanges nothing";
  }
}

TEST_F(ExchangeRulesTest, UpdatesAreThoseOfThisRun) {
  for (uint64_t clock : {0, 2, 10, 0x7fffffff}) EXPECT_FALSE(Grant(clock, 0, 8).ok()) << clock;
  for (uint64_t clock = 3; clock < 10; ++clock) {
    reported_ = static_cast<int64_t>(clock);
    EXPECT_TRUE(Grant(clock, 0, 8).ok());
    EXPECT_TRUE(Grant(clock, 2, 12).ok());
  }
  EXPECT_FALSE(Grant(10, 0, 8).ok()) << "no training at max_iter";
}

TEST_F(ExchangeRulesTest, NoUpdateIsGrantedFarBeyondWhatThisNodeHasReported) {
  for (uint64_t clock : {3, 4, 5}) {
    EXPECT_TRUE(Grant(clock, 0, 8).ok());
    EXPECT_TRUE(Grant(clock, 2, 12).ok());
  }
  EXPECT_THAT(Grant(6, 0, 8).message(), HasSubstr("expected 5 at most, since this node has not reported more"));
  reported_ = 3;
  EXPECT_FALSE(Grant(6, 0, 8).ok()) << "iteration 3 is under way";
  reported_ = 4;
  EXPECT_TRUE(Grant(6, 0, 8).ok());
}

// With staleness 2, three updates may lack places at once, and so many more reports and verdicts may be open.
class StaleRulesTest : public ExchangeRulesTest {
 protected:
  StaleRulesTest() { stale_.SetPlan(stale_job_.get(), 3, {{.stage = 0, .granter = kConv1, .bytes = {8, 0, 12}}}); }
  Status Grant(uint64_t clock, uint32_t number, size_t bytes) {
    return stale_.CheckGrant(kConv1, ExchangeTag(0, clock, number), bytes, reported_);
  }

  const RoutingTable stale_table_ = MakeTable(std::string(kTable) + "staleness: 2");
  const std::unique_ptr<JobPlan> stale_job_ = SmallJob(stale_table_);
  PeerRules stale_{stale_table_, kConv0};
};

TEST_F(StaleRulesTest, PlacesOfAsManyUpdatesMayBeGranted) {
  EXPECT_TRUE(Grant(5, 0, 8).ok());
  EXPECT_TRUE(Grant(4, 2, 12).ok());
  EXPECT_FALSE(Grant(6, 0, 8).ok()) << "update 3 lacks all of its places";
  EXPECT_TRUE(Grant(3, 0, 8).ok());
  EXPECT_FALSE(Grant(3, 0, 8).ok()) << "twice";
  EXPECT_FALSE(Grant(6, 0, 8).ok()) << "update 3 lacks one";
  EXPECT_TRUE(Grant(3, 2, 12).ok());
  EXPECT_TRUE(Grant(6, 0, 8).ok());
  EXPECT_FALSE(Grant(3, 2, 12).ok()) << "update 3 has all of its places";
  EXPECT_TRUE(Grant(4, 0, 8).ok());
  EXPECT_TRUE(Grant(7, 2, 12).ok());
  EXPECT_FALSE(Grant(8, 2, 12).ok());
}

TEST_F(StaleRulesTest, ReportsAndVerdictsOfAsManyClocksMayBeOpen) {
  IterationReport report;
  for (int64_t clock = 3; clock < 8; ++clock) {
    report.set_clock(clock);
    EXPECT_EQ(stale_.CheckReport(kConv1, report, 0).ok(), clock < 7) << clock;
  }
  Verdict verdict;
  for (int64_t clock = 3; clock < 7; ++clock) {
    verdict.set_clock(clock);
    EXPECT_TRUE(stale_.CheckVerdict(verdict, 7).ok()) << clock;
  }
}

TEST_F(PeerRulesTest, ReportsAreOfTheTwoIterationsThatMayBeOpen) {
  const auto rules = Rules(0);
  BoundaryRequests requests(0);
  requests.Keep(2, -1, std::nullopt);
  IterationReport report;
  const auto check = [&](int64_t clock) {
    report.set_clock(clock);
    return rules->CheckReport(kConv1, report, requests.clocks_judged());
  };
  for (int64_t clock : {3, 4}) {
    EXPECT_TRUE(check(clock).ok());
    requests.AddReport(kConv1, report, [](const Verdict&) { FAIL() << "a report is missing"; });
  }
  EXPECT_EQ(check(5).message(), "a report of iteration 5 before the verdict on iteration 3");
  report.set_clock(3);
  std::vector<int64_t> judged;
  requests.AddReport(kConv0, report, [&](const Verdict& verdict) { judged.push_back(verdict.clock()); });
  EXPECT_THAT(judged, ElementsAre(3));
  EXPECT_TRUE(check(5).ok());
  EXPECT_FALSE(check(6).ok());
}

TEST_F(PeerRulesTest, NormsAreOfParametersOfTheNet) {
  const auto first = Rules(0), other = Rules(kShard0);
  int64_t clock = 3;
  const auto good = [&](const std::string& params) {
    const std::string text = "clock: " + std::to_string(clock++) + " " + params;
    const bool report = first->CheckReport(kConv1, Parse<IterationReport>(text), clock).ok();
    EXPECT_EQ(other->CheckVerdict(Parse<Verdict>(text), clock).ok(), report) << text;
    return report;
  };
  EXPECT_TRUE(good("params { param: 1 gradient: 4 values: 2 } params { gradient: inf values: nan }"));
  EXPECT_FALSE(good("params { param: -1 gradient: 4 values: 2 }"));
  EXPECT_FALSE(good("params { param: 1000 gradient: 4 values: 2 }"));
  EXPECT_FALSE(good("params { param: 1 } params { param: 1 }"));
  EXPECT_FALSE(good("params { param: 1 gradient: -1 }"));
  EXPECT_FALSE(good("params { param: 1 values: -1 }"));
  EXPECT_TRUE(good(""));
}

TEST_F(PeerRulesTest, ReportsAndVerdictsComeInOrder) {
  const auto first = Rules(0), other = Rules(kShard0);
  const auto report = [](int64_t clock) {
    IterationReport report;
    report.set_clock(clock);
    report.set_sum_of_squares(NAN);
    return report;
  };
  EXPECT_TRUE(first->CheckReport(kConv1, report(3), 0).ok());
  EXPECT_FALSE(first->CheckReport(kConv1, report(3), 0).ok()) << "twice";
  EXPECT_TRUE(first->CheckReport(kShard0, report(3), 0).ok()) << "each node has a row of its own";
  EXPECT_TRUE(first->CheckReport(kConv1, report(4), 0).ok());
  EXPECT_FALSE(first->CheckReport(kConv1, report(6), 10).ok());
  EXPECT_FALSE(first->CheckReport(kShard1, report(-1), 0).ok());
  Verdict verdict;
  verdict.set_clock(3);
  EXPECT_EQ(other->CheckVerdict(verdict, 0).message(), "a verdict on iteration 3, which lacks this node's report");
  EXPECT_TRUE(other->CheckVerdict(verdict, 4).ok());
  EXPECT_FALSE(other->CheckVerdict(verdict, 4).ok()) << "twice";
  verdict.set_clock(5);
  EXPECT_EQ(other->CheckVerdict(verdict, 6).message(), "a verdict on iteration 5; expected 4") << "both may be open";
  verdict.set_clock(4);
  EXPECT_TRUE(other->CheckVerdict(verdict, 6).ok());
  verdict.set_clock(5);
  verdict.set_scale(NAN);
  EXPECT_FALSE(other->CheckVerdict(verdict, 6).ok());
  verdict.clear_scale();
  for (const int node : {-1, 99}) {
    verdict.set_clock(verdict.clock() + 1);
    verdict.mutable_slow_node()->set_node(node);
    EXPECT_FALSE(other->CheckVerdict(verdict, 10).ok()) << "there is no node " << node;
  }
}

TEST_F(PeerRulesTest, LabelsAreOfRowsThatTheReplicaReads) {
  const auto rules = Rules(kShard0);
  EXPECT_TRUE(rules->CheckLabels(kConv0, Labels(0, 4)).ok());
  EXPECT_TRUE(rules->CheckLabels(kConv1, Labels(4, 4)).ok());
  EXPECT_TRUE(rules->CheckLabels(kConv1, Labels(6, 2)).ok());
  EXPECT_FALSE(rules->CheckLabels(kConv0, Labels(0, 5)).ok()) << "row 4 is the other replica's";
  EXPECT_FALSE(rules->CheckLabels(kConv1, Labels(0, 4)).ok());
  for (int64_t row :
       {int64_t{-1}, int64_t{-1} << 60, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    EXPECT_FALSE(rules->CheckLabels(kConv0, Labels(row, 1)).ok()) << row;
  }
  LabelsMessage labels = Labels(0, 1);
  labels.set_clock(10);
  EXPECT_FALSE(rules->CheckLabels(kConv0, labels).ok()) << "no training at max_iter";
  labels = Labels(0, 1);
  labels.set_batch(1);
  EXPECT_FALSE(rules->CheckLabels(kConv0, labels).ok()) << "iter_size is 1";
  labels = Labels(0, 1);
  labels.set_phase(1);
  EXPECT_FALSE(rules->CheckLabels(kConv0, labels).ok()) << "no test at 4";
  labels.set_clock(5);
  labels.set_batch(1);
  EXPECT_TRUE(rules->CheckLabels(kConv0, labels).ok());
  for (const int phase : {-1, 2, std::numeric_limits<int>::max()}) {
    LabelsMessage other = labels;
    other.set_phase(phase);
    EXPECT_FALSE(rules->CheckLabels(kConv0, other).ok()) << "there is no phase " << phase;
  }
  for (float label : {NAN, INFINITY, -INFINITY, 1e30f}) {
    labels.set_label(0, label);
    EXPECT_FALSE(rules->CheckLabels(kConv0, labels).ok()) << label;
  }
  EXPECT_FALSE(Rules(kConv1)->CheckLabels(kConv0, Labels(0, 1)).ok()) << "it reads none";
}

/// Of several labels in a row it is told how many count.
TEST_F(PeerRulesTest, CountsOfLabelsAreThoseOfARow) {
  const RoutingTable table = MakeTable(R"(
      solver: "solver.prototxt" micro_batches: 2 stage { kind: CONV }
      node { name: "conv0" stage: 0 index: 0 host: "a" port: 29500 }
      node { name: "conv1" stage: 0 index: 1 host: "b" port: 29500 })");
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
      layer { name: "score" type: "Convolution" bottom: "data" top: "score"
              convolution_param { num_output: 4 kernel_size: 1 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss"
              loss_param { ignore_label: 255 } })");
  const SampleShape sample(Shape{1, 8, 8}, Shape{1, 8, 8});
  const auto job = PlanOf(table, net, Parse<caffe::SolverParameter>(kJobSolver), sample);
  ASSERT_TRUE(job.ok()) << job.status();
  PeerRules rules(table, kConv0);
  rules.SetPlan(job->get(), 3);
  LabelsMessage labels = Labels(4, 4);
  for (const float count : {0.0f, 1.0f, 64.0f}) {
    labels.set_label(3, count);
    EXPECT_TRUE(rules.CheckLabels(kConv1, labels).ok()) << count;
  }
  for (const float count : {65.0f, -1.0f, 0.5f, NAN, INFINITY}) {
    labels.set_label(3, count);
    EXPECT_THAT(rules.CheckLabels(kConv1, labels).message(), HasSubstr("a count of labels outside 0..64"));
  }
}

/// And of other labels that are counted another number of each row.
TEST_F(PeerRulesTest, SeveralNumbersOfARow) {
  const RoutingTable table = MakeTable(R"(
      solver: "solver.prototxt" micro_batches: 2 stage { kind: CONV }
      node { name: "conv0" stage: 0 index: 0 host: "a" port: 29500 }
      node { name: "conv1" stage: 0 index: 1 host: "b" port: 29500 })");
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "HDF5Data" top: "data" top: "label" top: "other"
              hdf5_data_param { source: "x" batch_size: 8 } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 4 } }
      layer { name: "a" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "a" loss_param { ignore_label: 2 } }
      layer { name: "b" type: "SoftmaxWithLoss" bottom: "ip" bottom: "other" top: "b" loss_param { ignore_label: 3 } })");
  const auto job = PlanOf(table, net, Parse<caffe::SolverParameter>(kJobSolver), {Shape{8}, Shape{}, {Shape{1}}});
  ASSERT_TRUE(job.ok()) << job.status();
  PeerRules rules(table, kConv0);
  rules.SetPlan(job->get(), 3);
  EXPECT_TRUE(rules.CheckLabels(kConv1, Labels(4, 8)).ok());
  EXPECT_TRUE(rules.CheckLabels(kConv1, Labels(6, 4)).ok());
  EXPECT_THAT(rules.CheckLabels(kConv1, Labels(6, 6)).message(), HasSubstr("6 labels, 2 in a row, from row 6 on"));
  EXPECT_FALSE(rules.CheckLabels(kConv1, Labels(4, 3)).ok()) << "a half row";
}

TEST_F(PeerRulesTest, StatisticsHaveAValueForEachOutput) {
  ASSERT_EQ(job_->reporter(), kShard0);
  const auto rules = Rules(kShard0);
  StatisticsMessage statistics;
  statistics.set_msg_id(MsgId::Make(4, true, 0, 1).bits);
  statistics.set_stage(1);
  EXPECT_FALSE(rules->CheckStatistics(kShard1, statistics).ok()) << "none";
  statistics.add_value(1);
  EXPECT_TRUE(rules->CheckStatistics(kShard1, statistics).ok());
  for (int stage : {0, -1, 7}) {
    statistics.set_stage(stage);
    EXPECT_FALSE(rules->CheckStatistics(kShard1, statistics).ok()) << "not its stage: " << stage;
  }
  statistics.set_stage(1);
  EXPECT_FALSE(rules->CheckStatistics(kConv1, statistics).ok()) << "its stage has no output";
  EXPECT_FALSE(Rules(kConv0)->CheckStatistics(kShard1, statistics).ok());
  statistics.add_value(1);
  EXPECT_FALSE(rules->CheckStatistics(kShard1, statistics).ok());
  statistics.set_msg_id(~uint64_t{0});
  EXPECT_FALSE(rules->CheckStatistics(kShard1, statistics).ok());
}

}  // namespace
}  // namespace hp
