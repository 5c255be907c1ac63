#pragma once

#include "backend/cuda/library.h"

#include <memory>

namespace hp::test {

/// What cuBLASLt and cuDNN do, in their layouts, by plain loops on the host, in the compute stream of a FakeGpu; JPEGs
/// as MakeHostJpegDecoder.
/// @param math kTf32 computes as kFloat32 does.
std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu, GpuMath math = GpuMath::kFloat32);

}  // namespace hp::test
