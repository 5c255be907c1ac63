// The contract where conv replicas learn by parameter servers: any number of either, beside shards, cut conv stages and
// rings, whatever arrives first.
#include "checkpoint/snapshot.h"
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

/// The table with servers of its stages.
ClusterSpec Served(ClusterSpec table, std::map<int, int> servers) {
  table.ps = std::move(servers);
  return table;
}

/// Two conv stages, cut behind relu1, and `fc` shards.
ClusterSpec TwoConvStages(int first, int second, int fc, int micro, bool tcp) {
  ClusterSpec table;
  table.stages = {{"kind: CONV to_layer: 'relu1'", first},
                  {"kind: CONV from_layer: 'pool1' to_layer: 'pool2'", second},
                  {"kind: FC from_layer: 'ip1'", fc}};
  table.micro_batches = micro;
  table.tcp = tcp;
  return table;
}

using ServedContractTest = ContractTest;

TEST_F(ServedContractTest, AnyNumberOfReplicasAndServers) {
  Check(Solver(""), {Served(Table(1, {}, 1, 0, false), {{0, 1}}), Served(Table(2, {}, 3, 1, false), {{0, 1}}),
                     Served(Table(3, {}, 1, 0, false), {{0, 3}}), Served(Table(2, {2}, 3, 1, false), {{0, 2}}),
                     Served(Table(3, {1, 2}, 2, 0, false), {{0, 5}})});
}

TEST_F(ServedContractTest, OverTcp) {
  Check(Solver(""), {Served(Table(2, {}, 2, 1, true), {{0, 2}}), Served(Table(3, {2}, 3, 0, true), {{0, 1}})});
}

TEST_F(ServedContractTest, ConvStagesWithServersEachOrBesideARing) {
  Check(Solver(""),
        {Served(TwoConvStages(2, 2, 1, 2, false), {{0, 1}, {1, 2}}), Served(TwoConvStages(2, 4, 2, 2, true), {{1, 2}}),
         Served(TwoConvStages(3, 3, 2, 1, false), {{0, 2}})});
}

TEST_F(ServedContractTest, ReplicasThatAreShardsAsWell) {
  ClusterSpec table;
  table.stages = {{"kind: CONV to_layer: 'pool2'", 2}, {"kind: FC from_layer: 'ip1'", 2, {0, 1}}};
  table.micro_batches = 2;
  Check(Solver(""), {Served(table, {{0, 1}})});
}

// The norm is over what servers and shards own, and servers wait for its verdict.
TEST_F(ServedContractTest, ClippedGradients) {
  Check(Solver("clip_gradients: 0.8"),
        {Served(Table(2, {2}, 3, 1, false), {{0, 2}}), Served(Table(3, {}, 1, 0, true), {{0, 1}})});
}

TEST_F(ServedContractTest, UnequalSharesAndTwoThreads) {
  ClusterSpec table = Served(Table(3, {2}, 2, 1, false), {{0, 2}});
  table.shares = {1, 2, 1};
  table.threads = 2;
  Check(Solver(""), {table});
}

// FP16 scales the loss; a skipped update leaves the old values, which replicas wait for all the same.
TEST_F(ServedContractTest, SkippedUpdates) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver("snapshot: 1 snapshot_prefix: '" + prefix + "'", false, 4, 0x1p40);
  ClusterSpec table = Served(Table(2, {2}, 2, 1, false), {{0, 2}});
  table.precision = RoutingTableConfig::FP16;
  table.loss_scaling.emplace().set_initial(0x1p91);
  const ClusterResult result = TrainCluster(table, solver);
  ASSERT_TRUE(result.status.ok()) << result.status;
  table.ps.clear();
  const ClusterResult ring = TrainCluster(table, solver);
  ASSERT_TRUE(ring.status.ok()) << ring.status;
  for (const auto& [name, values] : ring.params) {
    EXPECT_LT(RelativeDifference(result.params.at(name), values), 1e-4) << name;
  }
}

TEST_F(ServedContractTest, SameBitsWhateverArrivesFirst) {
  CheckSameBits(Served(Table(3, {2}, 2, 1, false), {{0, 2}}), Solver("", false, 12), {1, 2, 3});
  CheckSameBits(Served(TwoConvStages(2, 2, 1, 2, false), {{0, 1}, {1, 2}}), Solver("", false, 12), {4});
}

// Servers have the histories of what they serve, and give them to the snapshot; replicas resume with values alone.
TEST_F(ServedContractTest, ResumesFromItsSnapshots) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver("snapshot: 5 snapshot_prefix: '" + prefix + "'", false, 10);
  ClusterSpec table = Served(Table(2, {2}, 3, 1, false), {{0, 3}});
  const ClusterResult whole = TrainCluster(table, solver);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  table.resume = SnapshotStatePath(prefix, 5);
  const ClusterResult resumed = TrainCluster(table, solver);
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.params, whole.params);
}

TEST_F(ServedContractTest, RefusesServersWithNothingToServe) {
  const ClusterResult many = TrainCluster(Served(Table(2, {1}, 1, 0, false), {{0, 40}}), Solver(""));
  EXPECT_EQ(many.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(many.status.message(), testing::HasSubstr("would have no parameter of stage \"conv\""));
  const ClusterResult frozen = TrainCluster(Served(Table(2, {1}, 1, 0, false), {{0, 1}}), Solver("", true));
  EXPECT_EQ(frozen.status.code(), StatusCode::kInvalidArgument) << frozen.status;
}

}  // namespace
}  // namespace hp::test
