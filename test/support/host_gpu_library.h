#pragma once

#include "backend/cuda/library.h"

#include <memory>

namespace hp::test {

/// What cuBLASLt and cuDNN do, by plain loops on the host, in the compute stream of a FakeGpu.
std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu);

}  // namespace hp::test
