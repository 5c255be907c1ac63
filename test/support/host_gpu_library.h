#pragma once

#include "backend/cuda/library.h"

#include <cstdint>
#include <memory>

namespace hp::test {

/// What cuBLASLt and cuDNN do, in their layouts, by plain loops on the host, in the compute stream of a FakeGpu; JPEGs
/// as MakeHostJpegDecoder.
/// @param math kTf32 computes as kFloat32 does.
std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu, GpuMath math = GpuMath::kFloat32);

/// A convolution of that library whose channels lie in `groups` groups, whatever it would choose itself
/// (GpuConvolution::groups).
std::unique_ptr<GpuConvolution> MakeHostConvolution(Gpu* gpu, const ConvolutionDesc& desc, const Shape& in,
                                                    GpuMath math, int64_t groups);

}  // namespace hp::test
