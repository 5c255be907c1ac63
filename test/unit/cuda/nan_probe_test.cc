#include "backend/cuda/nan_probe.h"

#include "backend/window.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace hp::test {
namespace {

/// A convolution that turns the NaNs of y from byte `from` on into 0, as max(NaN, 0) is where it is the one that fmax
/// computes.
class LosesNans : public GpuConvolution {
 public:
  LosesNans(FakeGpu* gpu, std::unique_ptr<GpuConvolution> inner, size_t from, size_t y_bytes)
      : gpu_(gpu), inner_(std::move(inner)), from_(from), y_bytes_(y_bytes) {}
  bool nhwc() const override { return inner_->nhwc(); }
  int64_t groups() const override { return inner_->groups(); }
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  bool TakeRelu() override { return inner_->TakeRelu(); }
  void Forward(const void* x, const void* weights, const void* bias, void* y, std::byte* workspace) override {
    inner_->Forward(x, weights, bias, y, workspace);
    gpu_->stream(Device::kCompute).host->Enqueue([this, bytes = static_cast<std::byte*>(y)] {
      std::fill(bytes + std::min(from_, y_bytes_), bytes + y_bytes_, std::byte{});
    });
  }
  void BackwardInput(const void*, const void*, void*, std::byte*) override {}
  void BackwardWeights(const void*, const void*, void*, std::byte*) override {}

 private:
  FakeGpu* const gpu_;
  const std::unique_ptr<GpuConvolution> inner_;
  const size_t from_, y_bytes_;
};

class NanProbeTest : public testing::TestWithParam<GpuMath> {
 protected:
  bool Ask(size_t lost_from) {
    const Shape in = {2, 8, 6, 5};
    ConvolutionDesc desc;
    desc.num_output = 16, desc.bias = true;
    desc.kernel_h = desc.kernel_w = 3, desc.pad_h = desc.pad_w = 1;
    auto inner = MakeHostConvolution(&gpu_, desc, in, GetParam(), 1);
    EXPECT_TRUE(inner->TakeRelu());
    const ConvolutionCounts counts = {in.count(), 16 * 8 * 9, 16, 2 * 16 * 6 * 5};
    const ElementType element = ElementOf(GetParam());
    LosesNans convolution(&gpu_, std::move(inner), lost_from, static_cast<size_t>(counts.y) * BytesOf(element));
    return HandsNansOn(&gpu_, &convolution, counts, element).value();
  }
  FakeGpu gpu_;
};

TEST_P(NanProbeTest, TellsWhetherNansReachTheOutput) {
  EXPECT_TRUE(Ask(SIZE_MAX));
  EXPECT_FALSE(Ask(0));
  EXPECT_FALSE(Ask(1000)) << "some of them";
}

INSTANTIATE_TEST_SUITE_P(Maths, NanProbeTest,
                         testing::Values(GpuMath::kFloat32, GpuMath::kBFloat16, GpuMath::kFloat16));

}  // namespace
}  // namespace hp::test
