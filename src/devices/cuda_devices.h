#pragma once

#include "backend/cuda/library.h"

#include "devices/devices.h"
#include "devices/gpu_copier.h"

#include <functional>
#include <memory>
#include <span>

namespace hp {

// The parts of OpenNodeDevice for GPUs, apart so that tests make node devices of a FakeGpu.

/// How GPUs compute products with a table's precision, which is not AUTO.
GpuMath MathOf(Precision precision);

/// Describes memory of `gpu` for a transport: addresses, and functions that export or copy it.
/// @param gpu must outlive the description and its functions. @param place of the node that has the memory.
/// @param memory of Gpu::AllocateShared.
DeviceMemory DescribeGpuMemory(Gpu* gpu, const ProcessPlace& place, std::span<std::byte> memory);

using LibraryMaker = std::function<StatusOr<std::unique_ptr<GpuLibrary>>(Gpu* gpu, GpuMath math)>;

/// A node's device from its parts, for `precision` as OpenNodeDevice; without `connect`, which needs NCCL.
/// @return kResourceExhausted: the GPU has no memory for the backend's own.
StatusOr<NodeDevice> MakeGpuDevice(std::unique_ptr<Gpu> gpu, const LibraryMaker& make_library, Precision precision,
                                   const ProcessPlace& place = ThisPlace());

}  // namespace hp
