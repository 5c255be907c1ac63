// A program with this file skips all of its tests, and says why, where no GPU of NVIDIA's is.
#include "backend/cuda/gpu.h"

#include <gtest/gtest.h>

namespace hp::test {
namespace {

class NeedsGpu : public testing::Environment {
 public:
  void SetUp() override {
    const auto gpus = ListGpus();
    if (!gpus.ok()) GTEST_SKIP() << "no GPU of NVIDIA's here: " << gpus.status();
    if (gpus->empty()) GTEST_SKIP() << "no GPU of NVIDIA's here";
    for (const GpuInfo& gpu : *gpus) {
      if (!gpu.fault.empty()) GTEST_SKIP() << "no GPU of NVIDIA's here that is free: " << gpu.fault;
    }
  }
};

[[maybe_unused]] const testing::Environment* const kNeedsGpu = testing::AddGlobalTestEnvironment(new NeedsGpu);

}  // namespace
}  // namespace hp::test
