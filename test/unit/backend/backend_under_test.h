#pragma once

#include "backend/backend.h"
#include "tensor/device.h"

#include <memory>

namespace hp::test {

/// The backend whose ops a test program runs: that of the file it is linked with, cpu_under_test.cc or
/// fake_gpu_under_test.cc. So the same tests hold all backends to the same numbers.
struct BackendUnderTest {
  std::unique_ptr<Device> device;
  std::unique_ptr<Backend> backend;
  bool blocked_layouts = false;  ///< takes channels in blocks of 8 and 16, beside dense and NHWC
};

BackendUnderTest& UnderTest();

}  // namespace hp::test
