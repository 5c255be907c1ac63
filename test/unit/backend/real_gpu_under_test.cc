// Nothing here is ever given back: statics of the tests may outlive whatever is destroyed at the end of the process.
#include "backend/cuda/cuda_backend.h"
#include "test/unit/cuda/gpu_under_test.h"

#include "glog/logging.h"

#include <map>
#include <utility>

namespace hp::test {
namespace {

constexpr int kGpu = 0;  // CUDA_VISIBLE_DEVICES chooses another

/// Pinned memory of the host, which a GPU reaches at the host's addresses.
class PinnedMemory : public std::pmr::memory_resource {
 public:
  explicit PinnedMemory(Device* device) : device_(device) {}

 private:
  void* do_allocate(size_t bytes, size_t) override {
    auto buffer = device_->AllocateHost(bytes);
    CHECK(buffer.ok()) << buffer.status();
    std::byte* const data = buffer->data();
    buffers_[data] = *std::move(buffer);
    return data;
  }
  void do_deallocate(void* data, size_t, size_t) override { buffers_.erase(static_cast<std::byte*>(data)); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Device* const device_;
  std::map<std::byte*, Buffer> buffers_;
};

StatusOr<BackendUnderTest> Open(GpuMath math) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Gpu> gpu, OpenGpu(kGpu));
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuLibrary> library, MakeGpuLibrary(gpu.get(), math));
  BackendUnderTest opened;
  HP_ASSIGN_OR_RETURN(opened.backend, MakeCudaBackend(gpu.get(), std::move(library)));
  opened.device = std::move(gpu);
  return opened;
}

/// Without a GPU there is only memory, for statics: needs_gpu.cc skips all tests.
BackendUnderTest* OpenForGood() {
  auto opened = Open(GpuMath::kFloat32);
  if (!opened.ok()) return new BackendUnderTest;
  auto* const gpu = new BackendUnderTest(*std::move(opened));
  // Pinning a block takes longer than most tests' kernels: blocks are kept for the next one.
  gpu->memory = new std::pmr::unsynchronized_pool_resource(
      {.max_blocks_per_chunk = 64, .largest_required_pool_block = 4 << 20}, new PinnedMemory(gpu->device.get()));
  return gpu;
}

}  // namespace

BackendUnderTest& UnderTest() {
  static BackendUnderTest* const gpu = OpenForGood();
  return *gpu;
}

BackendUnderTest NewGpuUnderTest(GpuMath math) { return Open(math).value(); }

}  // namespace hp::test
