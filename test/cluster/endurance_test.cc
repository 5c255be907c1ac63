// The tightest tables for many iterations under random delays: nothing may wait for ever, grow, or depend on when
// things happen. HPNODE_ENDURANCE=N runs N iterations of each, otherwise a few.
#include "test/cluster/contract_fixture.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace hp::test {
namespace {

class EnduranceTest : public ContractTest {
 protected:
  static int Iterations() {
    const char* const text = std::getenv("HPNODE_ENDURANCE");
    return text == nullptr ? 60 : std::atoi(text);
  }
  /// Three replicas and two FC stages of three shards, everywhere a pool of one solver.
  static ClusterSpec Tightest(uint64_t delay_seed) {
    ClusterSpec spec = Split({{"ip2", SplitConfig::INPUTS}}, Table(3, {3, 3}, 2, 1, false));
    spec.delay_seed = delay_seed;
    spec.delay_us = 100;
    return spec;
  }
  static void Run(const ClusterSpec& spec, bool frozen) {
    const ClusterResult result = TrainCluster(spec, Solver("", frozen, Iterations()));
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.losses.size(), static_cast<size_t>(Iterations()));
    for (const auto& [clock, loss] : result.losses) ASSERT_TRUE(std::isfinite(loss)) << "iteration " << clock;
  }
};

TEST_F(EnduranceTest, PoolsOfOne) { Run(Tightest(11), false); }

// Without an exchange nothing holds fast replicas back.
TEST_F(EnduranceTest, PoolsOfOneWithFrozenConvLayers) { Run(Tightest(12), true); }

// Three conv stages with branches of the pooling that join in front of the shards, and a loss on the nodes that read.
TEST_F(EnduranceTest, StagesThatJoinOnOtherNodes) {
  ClusterSpec spec = Tightest(14);
  spec.splits.clear();
  spec.stages = {{"kind: CONV layer: 'loss' layer: 'accuracy' to_layer: 'pool1'", 3},
                 {"kind: CONV from_layer: 'norm1' to_layer: 'conv2'", 1},
                 {"kind: CONV from_layer: 'relu2' to_layer: 'pool2'", 3},
                 {"kind: FC from_layer: 'ip1'", 3}};
  Run(spec, false);
}

TEST_F(EnduranceTest, NodesThatAreReplicasAndShards) {
  ClusterSpec spec = Tightest(15);
  spec.stages = {{"kind: CONV to_layer: 'relu2'", 3},
                 {"kind: FC from_layer: 'pool2' to_layer: 'drop1'", 3, {2, 0}},
                 {"kind: FC from_layer: 'ip2'", 2, {1, 0}}};
  Run(spec, false);
}

// With the pools that the lead takes, and with pools of one.
TEST_F(EnduranceTest, StalenessWithParameterServers) {
  for (const bool lead : {true, false}) {
    ClusterSpec spec = Tightest(16);
    spec.staleness = 2;
    spec.ps = {{0, 2}};
    if (lead) spec.pool_size = 2 * 2 * 2 * 3 + 1;  // staleness x iter_size x micro-batches x replicas + 1
    Run(spec, false);
  }
}

TEST_F(EnduranceTest, ScatteredBoundariesAndALayerOnTheLead) {
  ClusterSpec spec = Split({{"ip2", SplitConfig::NONE}}, Tightest(13), true);
  Run(spec, false);
}

}  // namespace
}  // namespace hp::test
