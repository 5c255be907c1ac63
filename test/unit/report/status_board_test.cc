#include "report/status_board.h"

#include "proto/log_lines.h"
#include "report/node_status.h"
#include "scheduler/pipeline/time_use.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;
using testing::StrEq;

constexpr int64_t kMs = kNsPerMs;

/// A job of two conv nodes and two shards, whose nodes report by hand.
class StatusBoardTest : public testing::Test {
 protected:
  /// Iteration `clock` of a node ended at `at_ms`; since the start it computed and waited for other nodes so long.
  void Report(Rank rank, int64_t clock, int64_t at_ms, int64_t computing_ms, int64_t waiting_ms) {
    IterationReport report;
    report.set_clock(clock);
    NodeStatus& status = *report.mutable_node_status();
    status.set_at_ns(at_ms * kMs);
    status.set_computing_ns(computing_ms * kMs);
    for (int wait = 0; wait < kWaits; ++wait) {
      status.add_waiting_ns(wait == static_cast<int>(Wait::kExchange) ? waiting_ms * kMs : 0);
    }
    status.set_sent_bytes(1000 * at_ms);
    status.set_solvers_free(rank);
    for (Rank to = 0; to < 4; ++to) status.add_sent_to_bytes(to == rank ? 0 : (to + 1) * at_ms);
    board_.Add(rank, report);
  }

  const RoutingTable table_ = MakeTable(kTable);
  const std::unique_ptr<JobPlan> job_ = SmallJob(table_);
  FakeClock clock_;
  StatusBoard board_{table_, &clock_};
};

TEST_F(StatusBoardTest, BeforeTrainingAllNodesStart) {
  const JobStatus status = board_.Describe({});
  EXPECT_EQ(status.state(), JobStatus::STARTING);
  ASSERT_EQ(status.node_size(), 4);
  EXPECT_EQ(status.node(0).state(), NodeState::STARTING);
  EXPECT_EQ(status.node(0).role(), "conv");
  EXPECT_EQ(status.node(3).role(), "fc");
}

TEST_F(StatusBoardTest, LinesOfAllLogsComeAsTheyWereReported) {
  board_.Begin(job_.get(), "run.1", 0, "BF16");
  const auto say = [this](Rank rank, int64_t clock, const std::string& text) {
    IterationReport report;
    report.set_clock(clock);
    report.mutable_node_status()->set_at_ns(clock);
    report.mutable_node_status()->add_line()->set_text(text);
    board_.Add(rank, report);
  };
  say(3, 0, "first");
  say(0, 0, "\033[2J");
  ASSERT_EQ(board_.Describe({}).line_size(), 2);
  EXPECT_EQ(board_.Describe({}).line(0).node(), table_.node(3).name);
  EXPECT_EQ(board_.Describe({}).line(0).text(), "first");
  EXPECT_EQ(board_.Describe({}).line(1).number(), 2);
  EXPECT_EQ(board_.Describe({}).line(1).text().find('\033'), std::string::npos) << "nothing that a terminal obeys";
  for (int64_t i = 1; i <= 200; ++i) say(1, i, std::to_string(i));
  const JobStatus status = board_.Describe({});
  ASSERT_EQ(status.line_size(), kMostLinesOfAKind);
  EXPECT_EQ(status.line(0).text(), "first") << "a node that says much leaves those of the others";
  EXPECT_EQ(status.line(kMostLinesOfAKind - 1).text(), "200");
  EXPECT_EQ(status.line(kMostLinesOfAKind - 1).number(), 202);
}

TEST_F(StatusBoardTest, RatesAreThoseBetweenTwoReports) {
  board_.Begin(job_.get(), "run.1", 0, "BF16");
  for (Rank rank = 0; rank < 4; ++rank) Report(rank, 4, 1000, 100, 0);
  clock_.Advance(2000 * kMs);
  for (Rank rank = 0; rank < 4; ++rank) Report(rank, 14 + (rank == 0), 3000, 1100, 500);
  const JobStatus status = board_.Describe(20);
  EXPECT_EQ(status.state(), JobStatus::STOPPING);
  EXPECT_EQ(status.stop_at(), 20);
  EXPECT_EQ(status.run_id(), "run.1");
  EXPECT_EQ(status.precision(), "BF16") << "what AUTO was decided to be";
  EXPECT_EQ(status.iteration(), 15) << "of the slowest";
  const NodeState& node = status.node(1);
  EXPECT_EQ(node.iteration(), 15);
  EXPECT_DOUBLE_EQ(node.images_per_s(), 10.0 * static_cast<double>(RowsOf(*job_, table_, table_.node(1))) / 2);
  EXPECT_DOUBLE_EQ(node.sent_bytes_per_s(), 1e6);
  EXPECT_EQ(node.solvers_free(), 1);
  ASSERT_EQ(node.time_size(), 2);
  EXPECT_EQ(node.time(0).cause(), "computing");
  EXPECT_DOUBLE_EQ(node.time(0).share(), 0.5);
  EXPECT_EQ(node.time(1).cause(), "exchange");
  EXPECT_DOUBLE_EQ(node.time(1).share(), 0.25);
  EXPECT_DOUBLE_EQ(status.images_per_s(), 11.0 * static_cast<double>(job_->schedule().update_rows()) / 2);
  ASSERT_EQ(status.link_size(), 12) << "each node to each other one";
  const LinkState& to_shard = status.link(1);
  EXPECT_EQ(to_shard.from(), 0);
  EXPECT_EQ(to_shard.to(), 2);
  EXPECT_DOUBLE_EQ(to_shard.bytes_per_s(), 3000);
  EXPECT_THAT(to_shard.tensor(), ElementsAre(StrEq("pool1")));
  EXPECT_THAT(status.link(6).tensor(), ElementsAre(StrEq("gradient of pool1"))) << "2 to 0";
  EXPECT_THAT(status.link(0).tensor(), ElementsAre(StrEq("parameters"))) << "replicas exchange";
  clock_.Advance(2 * StatusBoard::kSilentNs);
  EXPECT_EQ(board_.Describe({}).node(1).state(), NodeState::SILENT);
}

TEST_F(StatusBoardTest, ANodeThatAllOthersWaitForIsNamedOnce) {
  board_.Begin(job_.get(), "run.1", 0, "BF16");
  int64_t computing[4] = {}, waiting[4] = {};
  const auto pass = [&](int64_t step, const std::vector<int64_t>& waits) {
    for (Rank rank = 0; rank < 4; ++rank) {
      waiting[rank] += waits[rank];
      computing[rank] += 6000 - waits[rank];
      Report(rank, step, 1 + 6000 * step, computing[rank], waiting[rank]);
    }
  };
  pass(0, {0, 0, 0, 0});
  pass(1, {3600, 60, 3000, 4200});
  const std::optional<SlowNode> slow = board_.TakeSlow();
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->node(), 1);
  EXPECT_EQ(DescribeSlow(table_, 0, *slow),
            "node conv1 on host b is slow: all others wait for other nodes at least 50% of the time, it waits 1%; "
            "hproute --exclude=b leaves its host out at the next start");
  EXPECT_THAT(DescribeSlow(table_, 1, *slow), StartsWith("this node, conv1 on host b, is slow: all others wait "));
  EXPECT_TRUE(board_.Describe({}).node(1).slow());
  EXPECT_FALSE(board_.Describe({}).node(0).slow());
  pass(3, {3600, 60, 1000, 4200});
  EXPECT_FALSE(board_.Describe({}).node(1).slow()) << "one of the others does not wait";
  EXPECT_FALSE(board_.TakeSlow()) << "once";
}

}  // namespace
}  // namespace hp
