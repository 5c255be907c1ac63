#include "backend/cuda/cuda_backend.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"
#include "test/unit/backend/backend_under_test.h"

namespace hp::test {

BackendUnderTest& UnderTest() {
  static BackendUnderTest gpu = [] {
    auto fake = std::make_unique<FakeGpu>();
    auto backend = MakeCudaBackend(fake.get(), MakeHostGpuLibrary(fake.get())).value();
    return BackendUnderTest{std::move(fake), std::move(backend), false};
  }();
  return gpu;
}

}  // namespace hp::test
