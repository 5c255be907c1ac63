#pragma once

#include "backend/cuda/gpu.h"
#include "backend/cuda/library.h"
#include "test/unit/backend/backend_under_test.h"

namespace hp::test {

/// The GPU that the test program is linked with, a fake or a real one.
inline Gpu& GpuUnderTest() { return dynamic_cast<Gpu&>(*UnderTest().device); }

/// One more of that kind, for one test; of a fake, nobody but queued work can touch the memory.
BackendUnderTest NewGpuUnderTest(GpuMath math = GpuMath::kFloat32);

}  // namespace hp::test
