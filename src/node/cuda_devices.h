#pragma once

#include "backend/cuda/library.h"
#include "node/devices.h"
#include "node/gpu_copier.h"

#include <memory>
#include <span>

namespace hp {

/// How GPUs compute products with a table's precision.
GpuMath MathOf(Precision precision);

/// Memory of `gpu`, which must outlive its uses, as a transport wants it described.
DeviceMemory DescribeGpuMemory(Gpu* gpu, const GpuPlace& place, std::span<std::byte> memory);

/// A node's device from its parts. @return kResourceExhausted: the GPU has no memory for the backend's own.
StatusOr<NodeDevice> MakeGpuDevice(std::unique_ptr<Gpu> gpu, std::unique_ptr<GpuLibrary> library,
                                   const GpuPlace& place = ThisPlace());

}  // namespace hp
