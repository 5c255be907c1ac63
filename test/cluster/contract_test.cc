// The contract of a routing table: it changes how fast training runs, never what it computes. One net with everything
// that depends on where a sample or a channel is (dropout, crops, mirrors, LRN, ignored labels, iter_size, uneven
// divisions) is trained by one process, then under many tables; all parameters and all losses must agree.
#include "checkpoint/snapshot.h"
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

TEST_F(ContractTest, TablesOverInproc) {
  Check(Solver(""), {Table(1, {1}, 1, 0, false), Table(1, {2}, 3, 1, false), Table(2, {1}, 1, 1, false),
                     Table(2, {2}, 3, 0, false), Table(2, {4}, 5, 1, false), Table(3, {1}, 3, 20, false),
                     Table(3, {2}, 1, 0, false), Table(3, {4}, 3, 1, false), Table(1, {4}, 8, 2, false),
                     Table(2, {2, 1}, 3, 1, false), Table(2, {2, 3}, 2, 0, false), Table(1, {1, 2}, 8, 0, false),
                     Table(2, {}, 1, 0, false), Table(3, {}, 2, 1, false), Table(1, {}, 3, 0, false)});
}

TEST_F(ContractTest, TablesOverTcp) {
  Check(Solver(""),
        {Table(1, {1}, 1, 1, true), Table(2, {1}, 3, 0, true), Table(2, {2}, 1, 1, true), Table(2, {4}, 3, 20, true),
         Table(3, {2}, 2, 1, true), Table(2, {3, 2}, 3, 0, true), Table(2, {}, 3, 0, true)});
}

TEST_F(ContractTest, ClippedGradients) {
  Check(Solver("clip_gradients: 0.8"), {Table(2, {2}, 3, 1, false), Table(2, {2, 2}, 2, 0, true),
                                        Table(3, {}, 1, 0, false), Table(1, {3}, 4, 2, true)});
}

constexpr auto kInputs = SplitConfig::INPUTS, kNone = SplitConfig::NONE;

// Alternating splits, sums at the lead and between stages, layers on the lead alone, slices that do not divide, and
// more shards than ip3 has outputs or conv2 has channels.
TEST_F(ContractTest, SplitsOfLayers) {
  Check(Solver(""),
        {Split({{"ip2", kInputs}}, Table(2, {2}, 3, 1, false)), Split({{"ip1", kInputs}}, Table(2, {3}, 2, 0, true)),
         Split({{"ip3", kInputs}}, Table(1, {4}, 3, 2, false)),
         Split({{"ip1", kInputs}, {"ip2", kInputs}, {"ip3", kInputs}}, Table(3, {2}, 1, 1, false)),
         Split({{"ip1", kNone}}, Table(2, {2}, 2, 0, false)),
         Split({{"ip2", kNone}, {"ip3", kInputs}}, Table(2, {3}, 3, 1, false)),
         Split({{"ip1", kInputs}, {"ip2", kInputs}}, Table(2, {2, 3}, 2, 1, false)),
         Split({{"ip2", kInputs}, {"ip3", kInputs}}, Table(1, {3, 2}, 3, 0, true)), Table(2, {7}, 1, 1, false),
         Split({{"ip1", kInputs}, {"ip3", kInputs}}, Table(1, {19}, 1, 1, false))});
}

// More shards than there is anything to do for: the last ones hold nothing, and end with the others.
TEST_F(ContractTest, ShardsWithoutALayer) {
  ClusterSpec table = Table(2, {7}, 2, 1, false);
  table.fc_starts = {"ip3"};
  table.ends = {"relu4"};
  Check(Solver(""), {table, Split({{"ip3", kNone}}, table)});
}

// Columns of weights, rows of biases and what one shard has alone are put together in a snapshot, and given out again.
TEST_F(ContractTest, SplitsResumeFromTheirSnapshots) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver("snapshot: 5 snapshot_prefix: '" + prefix + "'", false, 10);
  for (ClusterSpec table : {Split({{"ip1", kInputs}, {"ip2", kNone}}, Table(2, {3}, 2, 1, false)),
                            Split({{"ip2", kInputs}}, Table(1, {2, 3}, 3, 0, false), true)}) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult whole = TrainCluster(table, solver);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    table.resume = SnapshotStatePath(prefix, 5);
    const ClusterResult resumed = TrainCluster(table, solver);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(resumed.params, whole.params);
  }
}

// A pooling in the FC stage runs on every shard: each takes its slice of its own output, and adds nothing to the
// gradient of the others'.
TEST_F(ContractTest, WhatAllShardsComputeIsSlicedWhereItLies) {
  const auto table = [](int conv, int shards, int micro) {
    ClusterSpec spec = Table(conv, {shards}, micro, 1, false);
    spec.fc_starts = {"pool2"};
    spec.ends = {"relu2"};
    return spec;
  };
  Check(Solver(""), {Split({{"ip1", kInputs}}, table(2, 2, 3)), Split({{"ip1", kInputs}}, table(1, 3, 2), true),
                     Split({{"ip1", kInputs}, {"ip2", kInputs}}, table(1, 5, 1)), table(2, 3, 1)});
}

TEST_F(ContractTest, ScatteredBoundaries) {
  Check(Solver(""), {Split({}, Table(2, {2}, 3, 1, false), true), Split({}, Table(2, {3, 2}, 2, 0, true), true),
                     Split({{"ip1", kInputs}, {"ip2", kNone}}, Table(1, {3}, 3, 1, false), true),
                     Split({{"ip2", kInputs}}, Table(3, {2, 3}, 1, 1, false), true)});
}

TEST_F(ContractTest, SplitsWithClippingAndFrozenLayers) {
  Check(Solver("clip_gradients: 0.8"), {Split({{"ip2", kInputs}}, Table(2, {2}, 3, 1, false)),
                                        Split({{"ip1", kInputs}, {"ip2", kNone}}, Table(2, {3}, 2, 0, false), true)});
  Check(Solver("", true), {Split({{"ip1", kInputs}}, Table(2, {2}, 3, 1, false)),
                           Split({{"ip2", kInputs}}, Table(2, {3}, 1, 1, false), true)});
}

// No gradient crosses back to the conv nodes, and no exchange holds a fast replica back.
// What leaves the conv nodes are the images themselves.
TEST_F(ContractTest, ConvNodesThatOnlyRead) {
  ClusterSpec table = Table(2, {1}, 2, 1, true);
  table.fc_starts = {"conv1"};
  table.ends = {"data"};
  Check(Solver(""), {table});
}

TEST_F(ContractTest, FrozenConvLayers) {
  Check(Solver("", true), {Table(2, {2}, 3, 1, false), Table(3, {1, 2}, 2, 1, false), Table(2, {4}, 1, 0, true),
                           Table(2, {}, 3, 0, false)});
}

ClusterSpec WithThreads(int threads, ClusterSpec spec) {
  spec.threads = threads;
  return spec;
}

TEST_F(ContractTest, TwoThreadsANode) {
  Check(Solver(""), {WithThreads(2, Table(1, {}, 1, 0, false)), WithThreads(2, Table(2, {2}, 3, 0, false)),
                     WithThreads(2, Table(1, {2, 1}, 2, 1, false)), WithThreads(2, Table(2, {3}, 2, 0, true))});
}

TEST_F(ContractTest, SameTableTwiceGivesTheSameBits) {
  const std::string solver = Solver("", false, 12);
  for (const ClusterSpec& table : {Table(2, {2}, 3, 2, false), Table(3, {2, 2}, 2, 1, false), Table(2, {3}, 3, 0, true),
                                   Split({{"ip2", kInputs}}, Table(2, {3}, 3, 1, true), true)}) {
    SCOPED_TRACE(Describe(table));
    CheckSameBits(table, solver, {11, 12});
  }
}

TEST_F(ContractTest, SameBitsWithTwoThreadsANode) {
  const std::string solver = Solver("", false, 5);
  for (const ClusterSpec& table : {Table(1, {}, 2, 0, false), Table(2, {2}, 2, 0, true)}) {
    SCOPED_TRACE(Describe(table));
    CheckSameBits(WithThreads(2, table), solver, {11});
  }
}

}  // namespace
}  // namespace hp::test
