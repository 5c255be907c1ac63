#pragma once

#include "backend/cuda/library.h"

#include <memory>

namespace hp::test {

/// What cuBLASLt and cuDNN do, by plain loops on the host, in the compute stream of a FakeGpu.
/// @param element of the products' factors.
std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu, ElementType element = ElementType::kFloat32);

}  // namespace hp::test
