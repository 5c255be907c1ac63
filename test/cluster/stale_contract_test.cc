// Staleness s: iteration t computes with the parameters of t - s updates, but not with older ones than those of the
// latest test or snapshot. One process with that delay is the reference for every table with it.
#include "checkpoint/snapshot.h"
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

namespace hp::test {
namespace {

ClusterSpec Stale(int staleness, ClusterSpec table = {}) {
  table.staleness = staleness;
  return table;
}

ClusterSpec Served(int servers, ClusterSpec table) {
  table.ps = {{0, servers}};
  return table;
}

using StaleContractTest = ContractTest;

TEST_F(StaleContractTest, TablesComputeWhatOneProcessDoes) {
  for (const int s : {1, 4}) {
    Check(Solver(""), Stale(s),
          {Stale(s, Table(2, {2}, 3, 0, false)), Stale(s, Table(2, {1, 2}, 2, 1, false)),
           Stale(s, Table(3, {}, 1, 0, false)), Stale(s, Served(2, Table(3, {2}, 2, 0, false))),
           Stale(s, Served(1, Table(2, {}, 3, 1, true))), Stale(s, Table(2, {3}, 2, 5, true)),
           Stale(s, Split({{"ip1", SplitConfig::INPUTS}}, Table(2, {2}, 2, 2, false)))});
  }
}

TEST_F(StaleContractTest, NodesWithSeveralParts) {
  ClusterSpec table;
  table.stages = {{"kind: CONV to_layer: 'relu1'", 2},
                  {"kind: CONV from_layer: 'pool1' to_layer: 'pool2'", 2, {0, 1}},
                  {"kind: FC from_layer: 'ip1' layer: 'loss' layer: 'accuracy'", 2, {0}}};
  table.micro_batches = 2;
  Check(Solver(""), Stale(2), {Stale(2, table)});
}

// Each update waits for the verdict of its own clock, whatever has begun behind it.
TEST_F(StaleContractTest, ClippedGradients) {
  Check(Solver("clip_gradients: 0.8"), Stale(2),
        {Stale(2, Table(2, {2}, 3, 0, false)), Stale(2, Served(2, Table(3, {2}, 1, 0, false)))});
}

TEST_F(StaleContractTest, SameBitsWhateverArrivesFirst) {
  CheckSameBits(Stale(2, Served(2, Table(3, {2}, 2, 0, false))), Solver("", false, 12), {1, 2});
  CheckSameBits(Stale(1, Table(2, {2, 1}, 3, 1, false)), Solver("", false, 12), {3});
}

// A run that took the same snapshot is what a resumed one continues.
TEST_F(StaleContractTest, ResumesFromItsSnapshots) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver("snapshot: 5 snapshot_prefix: '" + prefix + "'", false, 14);
  for (ClusterSpec table : {Stale(3, Table(2, {2}, 2, 0, false)), Stale(2, Served(2, Table(2, {}, 1, 0, false)))}) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult whole = TrainCluster(table, solver);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    for (const int from : {5, 10}) {
      table.resume = SnapshotStatePath(prefix, from);
      const ClusterResult resumed = TrainCluster(table, solver);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_EQ(resumed.params, whole.params) << "from iteration " << from;
    }
  }
}

// The delay is there: what comes out differs from the synchronous run, and from another delay's.
TEST_F(StaleContractTest, TheDelayChangesWhatIsComputed) {
  const std::string solver = Solver("", false, 9);
  std::map<int, std::vector<float>> weights;
  for (const int s : {0, 1, 4}) {
    const ClusterResult result = TrainCluster(Stale(s), solver);
    ASSERT_TRUE(result.status.ok()) << result.status;
    weights[s] = result.params.at("ip1.0");
  }
  EXPECT_GT(RelativeDifference(weights[1], weights[0]), 1e-4);
  EXPECT_GT(RelativeDifference(weights[4], weights[1]), 1e-4);
}

constexpr int64_t kIterations = 9;

/// By how many clocks the forward passes of replica 0 get ahead of the first clock whose gradients replica 1 has not
/// begun to give away. Replica 1 waits in each clock until replica 0 is `wanted` clocks ahead of it, or half a minute.
int64_t LeadOf(ClusterSpec table, int64_t wanted, const std::string& solver) {
  constexpr int64_t kLastMicro = 1;  // iter_size 2
  std::mutex mutex;
  std::condition_variable changed;
  int64_t reached = -1, given = 0, lead = 0;
  table.before_task = [&](Rank rank, const Task& task) {
    std::unique_lock<std::mutex> lock(mutex);
    if (rank == 0 && task.kind == Task::kForward) {
      reached = std::max(reached, task.clock);
      lead = std::max(lead, task.clock - given);
      changed.notify_all();
    } else if (rank == 1 && task.kind == Task::kBackward && task.id.micro() == kLastMicro) {
      const int64_t until = std::min(task.clock + wanted, kIterations - 1);
      changed.wait_for(lock, std::chrono::seconds(30), [&] { return reached >= until; });
      given = task.clock + 1;
    }
  };
  const ClusterResult result = TrainCluster(table, solver);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return lead;
}

// However long one replica takes, the other one runs ahead by as much as the table allows, and not further.
TEST_F(StaleContractTest, TheLeadIsTheStalenessAndNotMore) {
  const std::string solver = Solver("", false, kIterations);
  for (const int s : {0, 1, 4}) {
    EXPECT_EQ(LeadOf(Stale(s, Served(1, Table(2, {}, 1, 0, false))), s, solver), s);
    EXPECT_EQ(LeadOf(Stale(s, Table(2, {1}, 1, 0, false)), s, solver), s);
  }
}

TEST_F(StaleContractTest, RefusesASampleOfClasses) {
  NetHead head;
  head.product = "bias_term: false num_output: 120 sample_rate: 0.15";
  const ClusterResult result = TrainCluster(Stale(1), Solver("", false, 5, 1, head));
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status.message(),
              testing::HasSubstr("sample of classes (sample_rate below 1); expected staleness: 0"));
  const ClusterResult larc = TrainCluster({}, Solver("larc: true", false, 5, 1, head));
  EXPECT_EQ(larc.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      larc.status.message(),
      testing::ContainsRegex("_net.prototxt:[0-9]+: layer \"[a-z0-9]+\": sample_rate below 1 does not go with the "
                             "solver's larc: true"));
}

}  // namespace
}  // namespace hp::test
