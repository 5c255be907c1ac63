// The contract for Caffe's solver types beside SGD: whatever a node's update keeps of a parameter, it keeps the same
// under every table.
#include "test/cluster/contract_fixture.h"

#include <gtest/gtest.h>

namespace hp::test {
namespace {

// Where squares of gradients are near zero, steps of AdaGrad and RMSProp have their sign alone, which rounding decides:
// with Caffe's delta of 1e-8 two runs that add in another order would part.
constexpr const char* kTypes[] = {
    "type: 'Nesterov' momentum: 0.9", "type: 'AdaGrad' delta: 0.05", "type: 'RMSProp' rms_decay: 0.9 delta: 0.5",
    "type: 'AdaDelta' momentum: 0.9 delta: 0.01", "type: 'Adam' momentum: 0.9 delta: 0.5"};

class SolverTypesTest : public ContractTest, public testing::WithParamInterface<const char*> {};

ClusterSpec Served(ClusterSpec table, int servers) {
  table.ps = {{0, servers}};
  return table;
}

TEST_P(SolverTypesTest, HybridTables) {
  Check(Solver(GetParam()), {Table(2, {2}, 3, 1, false), Table(3, {1, 2}, 2, 0, true), Table(2, {}, 1, 0, false)});
}

TEST_P(SolverTypesTest, ParameterServersTakeTheSteps) {
  Check(Solver(GetParam()), {Served(Table(3, {2}, 2, 0, false), 2), Served(Table(2, {}, 1, 1, true), 1)});
}

TEST_P(SolverTypesTest, ClippedGradients) {
  Check(Solver(std::string(GetParam()) + " clip_gradients: 0.8"), {Table(2, {3}, 3, 1, false)});
}

TEST_P(SolverTypesTest, GoOnFromTheirSnapshotsUnderAnotherTable) { CheckGoesOnUnderAnotherTable(GetParam()); }

class WarmUpTest : public ContractTest {};

TEST_F(WarmUpTest, IsThatOfTheIterationUnderEveryTable) {
  const std::string warm_up = "warmup_iter: 7 warmup_start_lr: 0.001";
  Check(Solver(warm_up), {Table(2, {2}, 3, 1, false), Served(Table(3, {2}, 2, 0, false), 2)});
  CheckGoesOnUnderAnotherTable(warm_up);
  EXPECT_NE(Train({}, Solver(warm_up, false, 5)).params, Train({}, Solver("", false, 5)).params);
}

class LarcTest : public ContractTest {};

TEST_F(LarcTest, NormsAreThoseOfWholeParameters) {
  Check(Solver("larc: true larc_eta: 0.05"), {Table(2, {2}, 3, 1, false), Table(3, {1, 2}, 2, 0, true),
                                              Table(2, {}, 1, 0, false), Served(Table(3, {2}, 2, 0, false), 2)});
}

TEST_F(LarcTest, ClipsRatesOfClippedGradients) {
  Check(Solver("larc: true larc_policy: 'clip' larc_eta: 0.01 clip_gradients: 0.8 type: 'Nesterov'"),
        {Table(2, {3}, 3, 1, false), Served(Table(2, {}, 1, 1, true), 1)});
}

TEST_F(LarcTest, FrozenLayersStay) {
  const std::string larc = "larc: true larc_eta: 0.05";
  Check(Solver(larc, true), {Table(2, {2}, 3, 1, false)});
  const ClusterResult begin = TrainCluster({}, Solver(larc, true, 1)), end = TrainCluster({}, Solver(larc, true, 5));
  ASSERT_TRUE(begin.status.ok() && end.status.ok()) << begin.status << end.status;
  int64_t same = 0;
  for (const auto& [name, values] : begin.params) same += end.params.at(name) == values ? 1 : 0;
  EXPECT_GT(same, 0);
  EXPECT_LT(same, std::ssize(begin.params));
}

TEST_F(LarcTest, ChangesTheUpdates) {
  const ClusterResult plain = TrainCluster({}, Solver("")),
                      larc = TrainCluster({}, Solver("larc: true larc_eta: 0.05"));
  ASSERT_TRUE(plain.status.ok() && larc.status.ok()) << plain.status << larc.status;
  for (const auto& [name, values] : plain.params) EXPECT_NE(larc.params.at(name), values) << name;
}

INSTANTIATE_TEST_SUITE_P(Types, SolverTypesTest, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(info.param).substr(7, 4); });

}  // namespace
}  // namespace hp::test
