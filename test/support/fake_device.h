#pragma once

#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"

#include "devices/cuda_devices.h"

#include <memory>
#include <utility>

namespace hp::test {

/// A node's device that is a fake GPU.
inline StatusOr<NodeDevice> FakeDevice(const FakeGpu::Options& options, Precision precision = RoutingTableConfig::FP32,
                                       const ProcessPlace& place = ThisPlace()) {
  const auto make_library = [](Gpu* gpu, GpuMath math) -> StatusOr<std::unique_ptr<GpuLibrary>> {
    return MakeHostGpuLibrary(gpu, math);
  };
  return MakeGpuDevice(std::make_unique<FakeGpu>(options), make_library, precision, place);
}

}  // namespace hp::test
