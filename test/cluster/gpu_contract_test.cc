// The contract with nodes on GPUs, alone and beside nodes on CPUs. The GPUs are fakes, which run the same kernels on
// the host, late and in any order that the node's marks allow, and whose memory nobody else can touch.
#include "node/cuda_devices.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"

namespace hp::test {
namespace {

NodeDevice FakeDevice(FakeGpu::Options options) {
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
    if (!gpu) return OpenNodeDevice("cpu");
    return FakeDevice({.index = rank, .seed = static_cast<uint32_t>(rank + 1), .protect = true});
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

TEST_F(GpuContractTest, SameBits) {
  const std::string solver = Solver("", false, 8);
  CheckSameBits(OnGpus(kEverywhere, Table(2, {2}, 3, 2, false)), solver, {11, 12});
  CheckSameBits(OnGpus(kOddNodes, Table(3, {2}, 2, 0, true)), solver, {11});
}

}  // namespace
}  // namespace hp::test
