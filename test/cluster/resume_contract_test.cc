// A snapshot belongs to the net, not to the table that it was written under: a run that goes on under another table
// ends with the parameters of one that was never stopped, up to rounding.
#include "checkpoint/snapshot.h"
#include "test/cluster/contract_fixture.h"

#include <utility>

namespace hp::test {
namespace {

constexpr int64_t kStopped = 20;  // iterations before the snapshot, of 50
constexpr auto kInputs = SplitConfig::INPUTS, kNone = SplitConfig::NONE;

class ResumeContractTest : public ContractTest {
 protected:
  /// Trains under the first table of each pair, and from its snapshot on under the second.
  static void CheckPairs(const std::string& extra, const std::vector<std::pair<ClusterSpec, ClusterSpec>>& pairs) {
    const ClusterResult whole = TrainCluster(ClusterSpec(), Solver(extra));
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    for (const auto& [before, after] : pairs) {
      SCOPED_TRACE(Describe(before) + " -> " + Describe(after));
      const std::string prefix = NewPrefix();
      const std::string solver = Solver(extra + " snapshot: 20 snapshot_prefix: '" + prefix + "'");
      const ClusterResult first = TrainCluster(before, solver);
      ASSERT_TRUE(first.status.ok()) << first.status;
      ClusterSpec resumed = after;
      resumed.resume = SnapshotStatePath(prefix, kStopped);
      ClusterResult reference = whole;
      std::erase_if(reference.losses, [](const auto& loss) { return loss.first < kStopped; });
      const ClusterResult second = TrainCluster(resumed, solver);
      ASSERT_TRUE(second.status.ok()) << second.status;
      Compare(second, reference);
    }
  }
  static ClusterSpec WithThreads(int threads, ClusterSpec spec) {
    spec.threads = threads;
    return spec;
  }
  static ClusterSpec Served(int servers, ClusterSpec spec) {
    spec.ps = {{0, servers}};
    return spec;
  }
  static ClusterSpec WithShares(std::vector<int> shares, ClusterSpec spec) {
    spec.shares = std::move(shares);
    return spec;
  }
};

TEST_F(ResumeContractTest, OtherReplicasAndShards) {
  CheckPairs("", {{Table(1, {}, 1, 0, false), Table(2, {3}, 2, 1, false)},
                  {Table(3, {4}, 3, 0, false), Table(1, {1}, 1, 0, false)},
                  {Table(2, {2, 3}, 2, 0, true), Table(3, {1}, 3, 1, false)},
                  {Table(2, {2}, 3, 1, false), Table(1, {}, 2, 0, false)}});
}

TEST_F(ResumeContractTest, OtherSplits) {
  CheckPairs("", {{Table(2, {2}, 2, 0, false), Split({{"ip2", kInputs}}, Table(2, {2}, 2, 0, false))},
                  {Split({{"ip1", kInputs}, {"ip2", kNone}}, Table(2, {3}, 2, 1, false)), Table(1, {4}, 3, 0, false)},
                  {Split({{"ip2", kInputs}}, Table(1, {3}, 3, 0, false), true),
                   Split({{"ip1", kInputs}, {"ip3", kInputs}}, Table(2, {2}, 1, 0, false))}});
}

TEST_F(ResumeContractTest, AnotherExchange) {
  CheckPairs("clip_gradients: 0.8", {{Served(2, Table(2, {1}, 2, 0, false)), Table(3, {2}, 1, 0, false)},
                                     {Table(2, {2}, 2, 0, false), Served(3, Table(3, {1}, 2, 0, false))},
                                     {Served(1, Table(2, {}, 2, 0, false)), Served(2, Table(2, {2}, 1, 0, false))}});
}

TEST_F(ResumeContractTest, OtherThreadsAndShares) {
  CheckPairs("", {{WithThreads(1, Table(2, {2}, 2, 0, false)), WithThreads(2, Table(2, {2}, 2, 0, false))},
                  {WithThreads(3, Table(1, {1}, 2, 0, false)), WithThreads(1, Table(1, {1}, 2, 0, false))},
                  {WithShares({2, 1}, Table(2, {2}, 2, 0, false)), WithShares({1, 3, 2}, Table(3, {2}, 1, 0, false))}});
}

}  // namespace
}  // namespace hp::test
