// The contract with nodes on GPUs, alone and beside nodes on CPUs. The GPUs are fakes, which run the same kernels on
// the host, late and in any order that the node's marks allow, and whose memory nobody else can touch.
#include "node/cuda_devices.h"
#include "solvers/snapshot.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"

#include <gmock/gmock.h>

#include <atomic>

namespace hp::test {
namespace {

StatusOr<NodeDevice> FakeDevice(FakeGpu::Options options) {
  auto gpu = std::make_unique<FakeGpu>(options);
  auto library = MakeHostGpuLibrary(gpu.get());
  return MakeGpuDevice(std::move(gpu), std::move(library));
}

/// Which nodes of a table compute on GPUs.
enum Where { kEverywhere, kConv, kFc, kOddNodes };

ClusterSpec OnGpus(Where where, ClusterSpec table) {
  table.open_device = [where, conv = table.conv](Rank rank) -> StatusOr<NodeDevice> {
    const bool gpu = where == kEverywhere || (where == kConv && rank < conv) || (where == kFc && rank >= conv) ||
                     (where == kOddNodes && rank % 2 == 1);
    if (!gpu) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
    return FakeDevice({.index = rank, .seed = static_cast<uint32_t>(rank + 1), .protect = true});
  };
  return table;
}

class GpuContractTest : public ContractTest {};

/// Once every segment of every solver was recorded, each further task is one replay.
TEST_F(GpuContractTest, OneGpu) {
  std::atomic<int> recorded{0}, repeated{0};
  ClusterSpec table = Table(1, {}, 3, 0, false);
  table.precision = RoutingTableConfig::TF32;  // which the node's device is told, and a fake makes nothing of
  table.open_device = [&](Rank) {
    FakeGpu::Options options;
    options.protect = true;
    options.on_close = [&](const FakeGpu& gpu) {
      recorded += gpu.recorded();
      repeated += gpu.repeated();
    };
    return FakeDevice(options);
  };
  Check(Solver(""), {table});
  EXPECT_GT(recorded, 0);
  EXPECT_GT(repeated, 3 * recorded) << recorded << " recordings";
}

/// A table that does not fit is refused before training, with the figures; a pool whose size the table leaves open is
/// cut to what fits, which changes no bit.
TEST_F(GpuContractTest, CutsThePoolToTheGpusMemory) {
  const std::string solver = Solver("", false, 4);
  ClusterSpec table = Table(1, {}, 2, 0, false);
  std::atomic<size_t> peak{0};
  const auto train = [&](size_t memory_bytes) {
    table.open_device = [&peak, memory_bytes](Rank) {
      FakeGpu::Options options;
      options.memory_bytes = memory_bytes;
      options.on_close = [&peak](const FakeGpu& gpu) { peak = gpu.peak_bytes(); };
      return FakeDevice(options);
    };
    return TrainCluster(table, solver);
  };
  const ClusterResult roomy = train(size_t{1} << 28);
  const size_t peak_with_room = peak;
  ASSERT_TRUE(roomy.status.ok()) << roomy.status;
  ClusterResult tight;
  int refused = 0;
  for (size_t memory_bytes = 200'000; memory_bytes < 4'000'000; memory_bytes += 8'192) {
    tight = train(memory_bytes);
    if (tight.status.ok()) break;
    ++refused;
    EXPECT_EQ(tight.status.code(), StatusCode::kInvalidArgument) << tight.status;
    EXPECT_THAT(tight.status.message(), testing::ContainsRegex("needs .* MB, cuda:0 has free .* MB; memory: param"));
  }
  EXPECT_GT(refused, 0);
  ASSERT_TRUE(tight.status.ok()) << tight.status;
  EXPECT_EQ(roomy.params, tight.params);
  EXPECT_LT(peak, peak_with_room);
}

/// A GPU that fails ends the job: our own fault here, a lost node for the others.
TEST_F(GpuContractTest, AFailingGpuEndsTheJob) {
  ClusterSpec table = Table(1, {1}, 2, 0, false);
  FakeGpu* gpu = nullptr;
  table.open_device = [&gpu](Rank rank) -> StatusOr<NodeDevice> {
    if (rank == 0) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
    HP_ASSIGN_OR_RETURN(NodeDevice device, FakeDevice({.index = 3}));
    gpu = static_cast<FakeGpu*>(device.device.get());
    return device;
  };
  table.on_loss = [&gpu](int64_t clock) {
    if (clock == 4) gpu->Fail(InternalError("cuda:3: fell off the bus"));
  };
  const ClusterResult result = TrainCluster(table, Solver(""));
  EXPECT_EQ(result.status.code(), StatusCode::kInternal);
  EXPECT_THAT(result.status.message(), testing::HasSubstr("fell off the bus"));
  EXPECT_EQ(result.losses.count(10), 0u);
}

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
