#include "backend/cuda/cuda_backend.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"
#include "test/unit/cuda/gpu_under_test.h"

#if !defined(HP_TEST_MATH)
#define HP_TEST_MATH kFloat32
#endif

namespace hp::test {
namespace {

BackendUnderTest Open(const FakeGpu::Options& options, GpuMath math) {
  auto fake = std::make_unique<FakeGpu>(options);
  auto backend = MakeCudaBackend(fake.get(), MakeHostGpuLibrary(fake.get(), math)).value();
  return {.device = std::move(fake), .backend = std::move(backend), .waits = true};
}

}  // namespace

BackendUnderTest& UnderTest() {
  static BackendUnderTest gpu = Open({}, GpuMath::HP_TEST_MATH);
  return gpu;
}

BackendUnderTest NewGpuUnderTest(GpuMath math) {
  FakeGpu::Options options;
  options.protect = true;
  options.memory_bytes = 16 << 20;
  return Open(options, math);
}

}  // namespace hp::test
