#include "scheduler/control/membership.h"

#include "test/unit/routing/member_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = Membership::State;
using Options = MemberCluster::Options;

/// Every node but `except` has left, naming `lost`, not later than `deadline_ms` after `since_ms`.
void ExpectAllName(const MemberCluster& cluster, int nodes, const std::set<Rank>& except, Rank lost, int64_t since_ms,
                   int64_t deadline_ms) {
  for (Rank rank = 0; rank < nodes; ++rank) {
    if (except.count(rank) > 0) continue;
    EXPECT_EQ(cluster.end(rank).state, State::kLost) << "node " << rank;
    EXPECT_EQ(cluster.end(rank).loss.lost, lost) << "node " << rank << ": " << cluster.end(rank).line;
    EXPECT_LE(cluster.end(rank).at_ms - since_ms, deadline_ms) << "node " << rank;
  }
}

/// Clusters of 3 to 5 nodes, every victim, several seeds, slow and fast links, with and without lost messages at exit.
class LossTest : public ::testing::TestWithParam<std::tuple<int, int, bool>> {
 protected:
  template <typename Body>
  void ForEachVictim(Body body) {
    const auto [nodes, max_delay_ms, drops] = GetParam();
    for (unsigned seed = 1; seed <= 3; ++seed) {
      for (Rank victim = 0; victim < nodes; ++victim) {
        SCOPED_TRACE(Format("seed %u, victim %d", seed, victim));
        MemberCluster cluster(
            {.nodes = nodes, .seed = seed, .max_delay_ms = max_delay_ms, .end_drops_messages = drops});
        cluster.RunFor(1500 + 130 * static_cast<int>(seed));
        body(cluster, nodes, victim, cluster.now_ms());
      }
    }
  }
};

TEST_P(LossTest, KilledNodeIsNamedByAll) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    cluster.Kill(victim);
    cluster.RunFor(3000);
    ExpectAllName(cluster, nodes, {victim}, victim, now, 1000);
    EXPECT_THAT(cluster.end((victim + 1) % nodes).line, HasSubstr(Format("lost node \"n%d\": its connection", victim)));
  });
}

TEST_P(LossTest, StoppedNodeIsNamedByAll) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    cluster.Stop(victim);
    cluster.RunFor(4000);
    ExpectAllName(cluster, nodes, {victim}, victim, now, 3000);
    EXPECT_THAT(cluster.end((victim + 1) % nodes).line, HasSubstr("no heartbeat for 2.0 s"));
    // When it goes on, it hears what was decided.
    EXPECT_TRUE(cluster.alive(victim));
    cluster.Continue(victim);
    cluster.RunFor(1000);
    EXPECT_EQ(cluster.end(victim).state, State::kLost);
  });
}

TEST_P(LossTest, CutOffNodeIsNamedByAll) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    cluster.CutOff(victim);
    cluster.RunFor(4000);
    ExpectAllName(cluster, nodes, {}, victim, now, 3000);
    EXPECT_THAT(cluster.end(victim).line, HasSubstr("no heartbeat from any node"));
  });
}

TEST_P(LossTest, OneCutLinkGivesOneName) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank a, int64_t now) {
    const Rank b = (a + 1) % nodes;
    cluster.Cut(a, b);
    cluster.RunFor(4000);
    const Rank named = cluster.end((a + 2) % nodes).loss.lost;
    EXPECT_TRUE(named == a || named == b) << named;
    ExpectAllName(cluster, nodes, {named}, named, now, 3000);
    EXPECT_EQ(cluster.end(named).state, State::kLost);
  });
}

TEST_P(LossTest, TwoKilledAtOnceGiveOneName) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank a, int64_t now) {
    const Rank b = (a + 1) % nodes;
    cluster.Kill(a);
    cluster.Kill(b);
    cluster.RunFor(3000);
    const Rank named = cluster.end((a + 2) % nodes).loss.lost;
    EXPECT_TRUE(named == a || named == b) << named;
    ExpectAllName(cluster, nodes, {a, b}, named, now, 1000);
  });
}

TEST_P(LossTest, NodeThatGivesUpSaysWhy) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    cluster.at(victim).Fail(ResourceExhausted("out of memory"));
    cluster.RunFor(3000);
    ExpectAllName(cluster, nodes, {}, victim, now, 1000);
    EXPECT_EQ(cluster.end(victim).line, Format("node \"n%d\", this one, is lost: out of memory", victim));
    for (Rank rank = 0; rank < nodes; ++rank) {
      EXPECT_EQ(cluster.end(rank).loss.code, StatusCode::kResourceExhausted) << "the exit status of all, node " << rank;
    }
    EXPECT_EQ(cluster.end((victim + 1) % nodes).line,
              Format("lost node \"n%d\": out of memory (detected by node \"n%d\")", victim, victim));
  });
}

TEST_P(LossTest, FailedDataEndpointNamesItsPeerWithTheCause) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    cluster.at((victim + 1) % nodes).OnDataFailure(victim, Unavailable("qp 0x1a3: retry exceeded"));
    cluster.RunFor(400);
    EXPECT_EQ(cluster.at((victim + 1) % nodes).state(), State::kRunning);
    cluster.RunFor(2000);
    ExpectAllName(cluster, nodes, {victim}, victim, now, 1500);
    EXPECT_THAT(cluster.end((victim + 2) % nodes).line, HasSubstr("qp 0x1a3: retry exceeded"));
  });
}

/// Its last tensor was on its way behind its BYE.
TEST_P(LossTest, FailedDataEndpointOfANodeThatSaidBye) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t /*now*/) {
    cluster.at(victim).SendBye();
    cluster.RunFor(100);
    cluster.Kill(victim);
    cluster.RunFor(3000);
    for (Rank rank = 0; rank < nodes; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(cluster.at(rank).state(), State::kRunning) << "nobody misses it";
    }
    cluster.at((victim + 1) % nodes).OnDataFailure(victim, Unavailable("its last tensor did not come"));
    const int64_t failed = cluster.now_ms();
    cluster.RunFor(2000);
    ExpectAllName(cluster, nodes, {victim}, victim, failed, 1500);
    EXPECT_THAT(cluster.end((victim + 1) % nodes).line, HasSubstr("its last tensor did not come"));
  });
}

TEST_P(LossTest, FailedDataEndpointIsExplainedByAnotherLoss) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    // A collective that blames a neighbour fails first, because the victim dies.
    cluster.at((victim + 1) % nodes).OnDataFailure((victim + 2) % nodes, Unavailable("collective"));
    cluster.RunFor(100);
    cluster.Kill(victim);
    cluster.RunFor(2000);
    ExpectAllName(cluster, nodes, {victim}, victim, now, 1500);
  });
}

TEST_P(LossTest, EndsByByeFromAllToAll) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank slow, int64_t) {
    for (Rank rank = 0; rank < nodes; ++rank) {
      if (rank != slow) cluster.at(rank).SendBye();
      cluster.RunFor(700);
    }
    for (Rank rank = 0; rank < nodes; ++rank) EXPECT_TRUE(cluster.alive(rank));
    cluster.RunFor(20000);  // the last one writes its snapshot
    for (Rank rank = 0; rank < nodes; ++rank) EXPECT_TRUE(cluster.alive(rank));
    cluster.at(slow).SendBye();
    cluster.RunFor(1000);
    for (Rank rank = 0; rank < nodes; ++rank) EXPECT_EQ(cluster.end(rank).state, State::kDone) << rank;
  });
}

TEST_P(LossTest, NodeThatDiesBeforeItsByeIsLost) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t now) {
    for (Rank rank = 0; rank < nodes; ++rank) {
      if (rank != victim) cluster.at(rank).SendBye();
    }
    cluster.RunFor(300);
    cluster.Kill(victim);
    cluster.RunFor(2000);
    ExpectAllName(cluster, nodes, {victim}, victim, now, 1500);
  });
}

TEST_P(LossTest, ShortStopIsNoLoss) {
  ForEachVictim([](MemberCluster& cluster, int nodes, Rank victim, int64_t) {
    for (int i = 0; i < 5; ++i) {
      cluster.Stop(victim);
      cluster.RunFor(1350);
      cluster.Continue(victim);
      cluster.RunFor(700);
    }
    for (Rank rank = 0; rank < nodes; ++rank) EXPECT_EQ(cluster.at(rank).state(), State::kRunning) << rank;
  });
}

INSTANTIATE_TEST_SUITE_P(Clusters, LossTest,
                         ::testing::Combine(::testing::Values(3, 4, 5), ::testing::Values(0, 20, 80),
                                            ::testing::Bool()));

TEST(MembershipTest, SlowNodesAreNeverLost) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    MemberCluster cluster({.nodes = 5, .seed = seed, .min_delay_ms = 0, .max_delay_ms = 900});
    cluster.RunFor(60000);
    for (Rank rank = 0; rank < 5; ++rank) EXPECT_EQ(cluster.at(rank).state(), State::kRunning) << "seed " << seed;
  }
}

/// One node whose connections the test plays.
class OneNodeTest : public ::testing::Test, protected MembershipOutput {
 protected:
  explicit OneNodeTest(int nodes = 4) : membership_(Options(nodes), &clock_, this) {
    for (Rank peer = 1; peer < nodes; ++peer) membership_.OnConnected(peer);
  }
  static Membership::Options Options(int nodes) {
    Membership::Options options;
    for (int i = 0; i < nodes; ++i) options.names.push_back(Format("n%d", i));
    return options;
  }
  void SendToAll(MemberMessage type, const std::string& payload) override { sent_.push_back({type, payload}); }
  void SendHeartbeat(Rank peer) override { heartbeats_.push_back({peer, clock_.NowNs() / kNsPerMs}); }
  void ShutdownAll() override { shut_down_ = true; }
  /// Time passes in ticks of 50 ms, in which the nodes of `talking` are heard.
  void Pass(int ms, const std::set<Rank>& talking) {
    for (int i = 0; i < ms; i += 50) {
      clock_.Advance(50 * kNsPerMs);
      for (Rank peer : talking) membership_.OnHeard(peer, clock_.NowNs());
      membership_.Tick(true);
    }
  }
  int Sent(MemberMessage type) const {
    int count = 0;
    for (const auto& message : sent_) count += message.first == type;
    return count;
  }

  int64_t LastSentNs(Rank peer) override { return bytes_ns_[peer]; }
  /// When heartbeats went to `peer`, in ms.
  std::vector<int64_t> HeartbeatsTo(Rank peer) const {
    std::vector<int64_t> times;
    for (const auto& [to, at_ms] : heartbeats_) {
      if (to == peer) times.push_back(at_ms);
    }
    return times;
  }

  FakeClock clock_;
  std::vector<std::pair<MemberMessage, std::string>> sent_;
  std::vector<std::pair<Rank, int64_t>> heartbeats_;
  std::map<Rank, int64_t> bytes_ns_;  // when something else went to a peer
  bool shut_down_ = false;
  Membership membership_;
};

TEST_F(OneNodeTest, SendsAHeartbeatEveryHalfSecond) {
  Pass(2000, {1, 2, 3});
  for (Rank peer : {1, 2, 3}) EXPECT_THAT(HeartbeatsTo(peer), ElementsAre(500, 1000, 1500, 2000));
}

TEST_F(OneNodeTest, SendsNoHeartbeatWhereOtherBytesGo) {
  for (int i = 0; i < 20; ++i) {
    bytes_ns_[1] = clock_.NowNs();
    Pass(100, {1, 2, 3});
  }
  EXPECT_THAT(HeartbeatsTo(1), IsEmpty());
  EXPECT_THAT(HeartbeatsTo(2), ElementsAre(500, 1000, 1500, 2000));
  Pass(1500, {1, 2, 3});  // half a second after the last byte, at 1900, and then with all others
  EXPECT_THAT(HeartbeatsTo(1), ElementsAre(2400, 2500, 3000, 3500));
}

TEST_F(OneNodeTest, APeerHearsSomethingWithinHalfASecondAndATick) {
  for (const int gap_ms : {150, 300, 450, 550, 700, 1350}) {  // between two bytes, whatever their phase
    heartbeats_.clear();
    std::vector<int64_t> sent = {clock_.NowNs() / kNsPerMs};
    bytes_ns_[1] = clock_.NowNs();
    for (int at = 50; at <= 20000; at += 50) {
      Pass(50, {1, 2, 3});
      if (at % gap_ms != 0) continue;
      bytes_ns_[1] = clock_.NowNs();
      sent.push_back(clock_.NowNs() / kNsPerMs);
    }
    for (const int64_t at : HeartbeatsTo(1)) sent.push_back(at);
    std::sort(sent.begin(), sent.end());
    for (size_t i = 1; i < sent.size(); ++i) EXPECT_LE(sent[i] - sent[i - 1], 500) << "bytes each " << gap_ms << " ms";
    EXPECT_LE(HeartbeatsTo(1).size(), 55u) << "about two a second at most";
  }
}

TEST_F(OneNodeTest, SendsHeartbeatsToThoseThatSaidByeAndNotToThoseThatEnded) {
  membership_.OnMessage(1, MemberMessage::kBye, "");
  membership_.OnMessage(2, MemberMessage::kBye, "");
  membership_.OnClosed(2, Cancelled("ended"));
  Pass(1000, {3});
  EXPECT_THAT(HeartbeatsTo(1), ElementsAre(500, 1000));
  EXPECT_THAT(HeartbeatsTo(2), IsEmpty());
}

TEST_F(OneNodeTest, AnyByteCountsAsLife) {
  Pass(1900, {1, 2});
  membership_.OnHeard(3, clock_.NowNs());
  Pass(1900, {1, 2});
  EXPECT_EQ(membership_.state(), State::kRunning);
  Pass(100, {1, 2});
  EXPECT_EQ(membership_.state(), State::kLeaving);
  EXPECT_EQ(membership_.loss().lost, 3);
}

TEST_F(OneNodeTest, TellsAllBeforeItEndsItsStreamsAndReadsOnForHalfASecond) {
  Pass(100, {1, 2, 3});
  membership_.OnClosed(2, Unavailable("connection reset"));
  Pass(150, {1, 3});
  EXPECT_EQ(membership_.state(), State::kRunning);
  EXPECT_FALSE(shut_down_);
  Pass(50, {1, 3});
  EXPECT_EQ(membership_.state(), State::kLeaving);
  EXPECT_EQ(Sent(MemberMessage::kLost), 1);
  EXPECT_EQ(sent_.back().first, MemberMessage::kLost);
  EXPECT_TRUE(shut_down_);
  Pass(450, {1, 3});
  EXPECT_EQ(membership_.state(), State::kLeaving);
  Pass(50, {1, 3});
  EXPECT_EQ(membership_.state(), State::kLost);
  EXPECT_EQ(membership_.Describe(),
            "lost node \"n2\": its connection closed: connection reset (detected by node \"n0\")");
  const size_t heartbeats = heartbeats_.size();
  Pass(1000, {1, 3});
  EXPECT_EQ(heartbeats_.size(), heartbeats);
}

TEST_F(OneNodeTest, LeavesAsSoonAsAllHaveEndedTheirStreams) {
  membership_.OnClosed(2, Unavailable("reset"));
  Pass(200, {1, 3});
  EXPECT_EQ(membership_.state(), State::kLeaving);
  membership_.OnClosed(1, Cancelled("ended"));
  EXPECT_EQ(membership_.state(), State::kLeaving);
  membership_.OnClosed(3, Cancelled("ended"));
  EXPECT_EQ(membership_.state(), State::kLost);
}

TEST_F(OneNodeTest, NewsOfALossOverrulesAnEndOfStream) {
  // Node 2 left because it had heard that node 3 is lost; its own LOST did not reach us, node 1's does.
  membership_.OnClosed(2, Unavailable("reset"));
  Pass(150, {1, 3});
  struct Sender : MembershipOutput {
    void SendToAll(MemberMessage type, const std::string& payload) override {
      if (type == MemberMessage::kLost) lost = payload;
    }
    void SendHeartbeat(Rank) override {}
    int64_t LastSentNs(Rank) override { return 0; }
    void ShutdownAll() override {}
    std::string lost;
  } sender;
  Membership::Options options = Options(4);
  options.self = 1;
  Membership other(options, &clock_, &sender);
  other.OnMessage(2, MemberMessage::kLost, "\x08\x03\x10\x02\x1a\x03why");  // lost 3, detector 2, cause "why"
  membership_.OnMessage(1, MemberMessage::kLost, sender.lost);
  EXPECT_EQ(membership_.loss(), (Loss{3, 2, "why"}));
}

TEST_F(OneNodeTest, ACauseCannotWriteLinesOfItsOwn) {
  membership_.OnMessage(1, MemberMessage::kLost, "\x08\x03\x10\x02\x1a\x06why\n\x1b[");
  EXPECT_EQ(membership_.Describe(), "lost node \"n3\": why\\x0a\\x1b[ (detected by node \"n2\")");
}

TEST_F(OneNodeTest, RubbishInALostIsIgnored) {
  membership_.OnMessage(1, MemberMessage::kLost, "\xff\xff");
  membership_.OnMessage(1, MemberMessage::kLost, "\x08\x09\x10\x01");  // no node 9
  membership_.OnMessage(1, MemberMessage::kLost, "\x08\x01\x10\x63");  // no node 99
  EXPECT_EQ(membership_.state(), State::kRunning);
}

TEST_F(OneNodeTest, OwnStallAccusesNobody) {
  Pass(1000, {1, 2, 3});
  clock_.Advance(10 * kNsPerSecond);  // a suspended machine
  membership_.Tick(true);
  EXPECT_EQ(membership_.state(), State::kRunning);
  Pass(1850, {1, 2});  // a tenth of a second of it counts
  EXPECT_EQ(membership_.state(), State::kRunning);
  Pass(50, {1, 2});
  EXPECT_EQ(membership_.loss().lost, 3);
}

TEST_F(OneNodeTest, SilenceCountsOnlyWhileSomebodyListened) {
  Pass(1000, {1, 2, 3});
  int64_t deaf_ns = 0;
  for (int i = 0; i < 200; ++i) {  // the progress thread hangs in a system call for 10 s
    clock_.Advance(50 * kNsPerMs);
    deaf_ns += membership_.Tick(false);
  }
  EXPECT_EQ(deaf_ns, 10 * kNsPerSecond);
  Pass(1950, {1, 2});
  EXPECT_EQ(membership_.state(), State::kRunning);
  Pass(50, {1, 2});
  EXPECT_EQ(membership_.loss().lost, 3);
}

TEST_F(OneNodeTest, AProcessThatRunsNowAndThenHearsTheOthersInTime) {
  Pass(1000, {1, 2, 3});
  for (int i = 0; i < 20; ++i) {  // other programs leave us one moment in 1.5 s; the others are as badly off
    clock_.Advance(1500 * kNsPerMs);
    membership_.Tick(true);
    if (i % 3 == 0) {
      for (Rank peer : {1, 2, 3}) membership_.OnHeard(peer, clock_.NowNs());
    }
    ASSERT_EQ(membership_.state(), State::kRunning) << i;
  }
}

TEST_F(OneNodeTest, ANodeThatHasLittleProcessorTimeCountsLittleSilence) {
  Pass(1000, {1, 2, 3});
  for (int i = 0; i < 18; ++i) {  // 3 has the same processor, and less of it; the others' messages arrive
    clock_.Advance(500 * kNsPerMs);
    for (Rank peer : {1, 2}) membership_.OnHeard(peer, clock_.NowNs());
    membership_.Tick(true);
    ASSERT_EQ(membership_.state(), State::kRunning) << i;
  }
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(500 * kNsPerMs);
    for (Rank peer : {1, 2}) membership_.OnHeard(peer, clock_.NowNs());
    membership_.Tick(true);
  }
  EXPECT_EQ(membership_.loss().lost, 3);  // it would never be found otherwise
}

TEST_F(OneNodeTest, AnEndOfStreamWaitsForItsReasonThatIsNotReadYet) {
  Pass(1000, {1, 2, 3});
  membership_.OnClosed(3, Unavailable("end of stream"));
  clock_.Advance(2 * kNsPerSecond);
  membership_.Tick(true);
  EXPECT_EQ(membership_.state(), State::kRunning);
  Pass(100, {1, 2});
  EXPECT_EQ(membership_.loss().lost, 3);
}

TEST_F(OneNodeTest, EndOfStreamAfterByeIsNoLoss) {
  membership_.OnMessage(2, MemberMessage::kBye, "");
  membership_.OnClosed(2, Unavailable("reset"));
  Pass(5000, {1, 3});
  EXPECT_EQ(membership_.state(), State::kRunning);
  membership_.SendBye();
  membership_.OnMessage(1, MemberMessage::kBye, "");
  EXPECT_EQ(membership_.state(), State::kRunning);
  membership_.OnMessage(3, MemberMessage::kBye, "");
  EXPECT_EQ(membership_.state(), State::kEnding);
  EXPECT_TRUE(shut_down_);
  membership_.OnClosed(1, Unavailable("reset"));
  EXPECT_EQ(membership_.state(), State::kEnding);
  membership_.OnClosed(3, Cancelled("ended"));
  EXPECT_EQ(membership_.state(), State::kDone);
  Pass(5000, {});
  EXPECT_EQ(membership_.state(), State::kDone);
}

TEST_F(OneNodeTest, APeerThatNeverClosesDoesNotHoldTheEndUp) {
  membership_.SendBye();
  for (Rank peer : {1, 2, 3}) membership_.OnMessage(peer, MemberMessage::kBye, "");
  Pass(1950, {});
  EXPECT_EQ(membership_.state(), State::kEnding);
  Pass(50, {});
  EXPECT_EQ(membership_.state(), State::kDone);
}

TEST_F(OneNodeTest, CollectiveOfUnknownCauseEndsThisNode) {
  membership_.OnDataFailure(0, Unavailable("allreduce: broken pipe"));
  Pass(450, {1, 2, 3});
  EXPECT_EQ(membership_.state(), State::kRunning);
  Pass(50, {1, 2, 3});
  EXPECT_EQ(membership_.loss(), (Loss{0, 0, "allreduce: broken pipe"}));
}

/// When one of two nodes sends heartbeats, in ms.
struct HeartbeatTimes : MembershipOutput {
  explicit HeartbeatTimes(const Clock* c) : clock(c) {}
  void SendToAll(MemberMessage, const std::string&) override {}
  void SendHeartbeat(Rank) override { times.push_back(clock->NowNs() / kNsPerMs); }
  int64_t LastSentNs(Rank) override { return 0; }
  void ShutdownAll() override {}
  const Clock* const clock;
  std::vector<int64_t> times;
};

TEST(MembershipTest, NodesThatBeganAtDifferentMomentsSendHeartbeatsAtTheSame) {
  FakeClock clock;
  std::vector<HeartbeatTimes> sent(2, HeartbeatTimes(&clock));
  std::vector<std::unique_ptr<Membership>> nodes;
  for (int at_ms = 0; at_ms <= 2000; at_ms += 10, clock.Advance(10 * kNsPerMs)) {
    if (at_ms == 0 || at_ms == 130) {
      const Rank self = static_cast<Rank>(nodes.size());
      nodes.push_back(
          std::make_unique<Membership>(Membership::Options{.self = self, .names = {"n0", "n1"}}, &clock, &sent[self]));
      nodes.back()->OnConnected(1 - self);
    }
    for (Rank self = 0; self < static_cast<Rank>(nodes.size()); ++self) {
      nodes[self]->OnHeard(1 - self, clock.NowNs());
      nodes[self]->Tick(true);
    }
  }
  for (const HeartbeatTimes& node : sent) EXPECT_THAT(node.times, ElementsAre(500, 1000, 1500, 2000));
}

class SmallJobTest : public OneNodeTest {
 protected:
  SmallJobTest() : OneNodeTest(2) {}
};

TEST_F(SmallJobTest, TheOnlyPeerIsNamed) {
  Pass(2000, {});
  EXPECT_EQ(membership_.loss().lost, 1);
}

class AloneTest : public OneNodeTest {
 protected:
  AloneTest() : OneNodeTest(1) {}
};

TEST_F(AloneTest, OneNodeIsDoneByItself) {
  Pass(10000, {});
  EXPECT_EQ(membership_.state(), State::kRunning);
  membership_.SendBye();
  EXPECT_EQ(membership_.state(), State::kDone);
}

}  // namespace
}  // namespace hp
