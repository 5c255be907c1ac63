#pragma once

#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"

#include "devices/cuda_devices.h"

#include <memory>
#include <utility>

namespace hp::test {

/// A node's device that is a fake GPU.
inline StatusOr<NodeDevice> FakeDevice(const FakeGpu::Options& options, Precision precision = RoutingTableConfig::FP32,
                                       const GpuPlace& place = ThisPlace()) {
  auto gpu = std::make_unique<FakeGpu>(options);
  auto library = MakeHostGpuLibrary(gpu.get(), ElementOf(MathOf(precision)));
  return MakeGpuDevice(std::move(gpu), std::move(library), place);
}

}  // namespace hp::test
