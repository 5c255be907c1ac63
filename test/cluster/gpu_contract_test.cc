// The contract with nodes on GPUs, alone and beside nodes on CPUs. The GPUs are those of the file that the program is
// linked with: fakes, each of a node's own, which run the same kernels on the host, late and in any order that the
// node's marks allow, and whose memory nobody else can touch; or the first real one of this host, which all nodes
// share.
#include "solvers/snapshot.h"
#include "test/cluster/contract_fixture.h"
#include "test/cluster/gpu_under_test.h"

namespace hp::test {
namespace {

/// Which nodes of a table compute on GPUs.
enum Where { kEverywhere, kConv, kFc, kOddNodes };

ClusterSpec OnGpus(Where where, ClusterSpec table) {
  table.open_device = [where, conv = table.conv](Rank rank) -> StatusOr<NodeDevice> {
    const bool gpu = where == kEverywhere || (where == kConv && rank < conv) || (where == kFc && rank >= conv) ||
                     (where == kOddNodes && rank % 2 == 1);
    if (!gpu) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
    return OpenGpuUnderTest(rank);
  };
  return table;
}

class GpuContractTest : public ContractTest {};

TEST_F(GpuContractTest, OneGpu) { Check(Solver(""), {OnGpus(kEverywhere, Table(1, {}, 3, 0, false))}); }

TEST_F(GpuContractTest, GpusAlone) {
  Check(Solver(""),
        {OnGpus(kEverywhere, Table(2, {2}, 3, 0, false)), OnGpus(kEverywhere, Table(2, {2, 1}, 2, 1, true))});
}

TEST_F(GpuContractTest, ConvLayersOnCpusAndFcLayersOnGpusAndTheReverse) {
  Check(Solver(""), {OnGpus(kFc, Table(2, {2}, 3, 1, true)), OnGpus(kConv, Table(2, {2}, 3, 1, true)),
                     OnGpus(kConv, Table(3, {1, 2}, 2, 0, false)), OnGpus(kFc, Table(2, {4}, 5, 2, false))});
}

TEST_F(GpuContractTest, ReplicasAndShardsOfOneStageOnDifferentDevices) {
  Check(Solver(""), {OnGpus(kOddNodes, Table(3, {3}, 2, 0, false)), OnGpus(kOddNodes, Table(2, {2, 2}, 3, 1, true))});
}

TEST_F(GpuContractTest, ClippedGradientsAndFrozenLayers) {
  Check(Solver("clip_gradients: 0.8"), {OnGpus(kEverywhere, Table(2, {2}, 3, 1, false))});
  Check(Solver("", true), {OnGpus(kOddNodes, Table(2, {2}, 3, 1, false))});
}

/// GPUs read the scale from their memory, where every recording of a segment finds that of its iteration. It starts
/// where gradients overflow, and grows until they do so again.
TEST_F(GpuContractTest, LossScaling) {
  constexpr int kIterations = 24, kPeriod = 6;
  const std::string prefix = NewPrefix();
  const std::string snapshots = "snapshot: " + std::to_string(kPeriod) + " snapshot_prefix: '" + prefix + "' ";
  const std::string solver = Solver(snapshots, false, kIterations, 0.8 * 0x1p40);
  const auto train = [&](ClusterSpec table, std::vector<double>* scales) {
    table.precision = RoutingTableConfig::FP16;
    table.loss_scaling.emplace().set_initial(0x1p94);
    table.loss_scaling->set_growth_interval(2);
    ClusterResult result = TrainCluster(table, solver);
    EXPECT_TRUE(result.status.ok()) << result.status;
    for (int iteration = kPeriod; iteration <= kIterations; iteration += kPeriod) {
      const auto snapshot = ReadSnapshot(SnapshotStatePath(prefix, iteration));
      EXPECT_TRUE(snapshot.ok()) << snapshot.status();
      scales->push_back(snapshot.ok() ? snapshot->manifest->loss_scaling().scale() : 0);
    }
    return result;
  };
  std::vector<double> want;
  const ClusterResult reference = train({}, &want);
  EXPECT_LT(want.front(), 0x1p92);
  for (const ClusterSpec& table :
       {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kEverywhere, Table(2, {2}, 3, 1, false)),
        OnGpus(kOddNodes, Table(2, {2, 1}, 2, 0, true))}) {
    SCOPED_TRACE(Describe(table));
    std::vector<double> scales;
    const ClusterResult result = train(table, &scales);
    EXPECT_EQ(scales, want);
    Compare(result, reference);
  }
}

TEST_F(GpuContractTest, SameBits) {
  const std::string solver = Solver("", false, 8);
  CheckSameBits(OnGpus(kEverywhere, Table(2, {2}, 3, 2, false)), solver, {11, 12});
  CheckSameBits(OnGpus(kOddNodes, Table(3, {2}, 2, 0, true)), solver, {11});
}

}  // namespace
}  // namespace hp::test
