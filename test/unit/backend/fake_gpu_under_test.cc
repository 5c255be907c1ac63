#include "backend/cuda/cuda_backend.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"
#include "test/unit/backend/backend_under_test.h"

namespace hp::test {
namespace {

BackendUnderTest Open(const FakeGpu::Options& options, ElementType element) {
  auto fake = std::make_unique<FakeGpu>(options);
  auto backend = MakeCudaBackend(fake.get(), MakeHostGpuLibrary(fake.get(), element)).value();
  return {.device = std::move(fake), .backend = std::move(backend), .waits = true};
}

}  // namespace

BackendUnderTest& UnderTest() {
  static BackendUnderTest gpu = Open({}, ElementType::kFloat32);
  return gpu;
}

BackendUnderTest NewGpuUnderTest(ElementType element) {
  FakeGpu::Options options;
  options.protect = true;
  options.memory_bytes = 16 << 20;
  return Open(options, element);
}

}  // namespace hp::test
