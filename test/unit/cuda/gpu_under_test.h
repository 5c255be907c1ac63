#pragma once

#include "backend/cuda/gpu.h"
#include "test/unit/backend/backend_under_test.h"

namespace hp::test {

/// The GPU that the test program is linked with, a fake or a real one.
inline Gpu& GpuUnderTest() { return dynamic_cast<Gpu&>(*UnderTest().device); }

}  // namespace hp::test
