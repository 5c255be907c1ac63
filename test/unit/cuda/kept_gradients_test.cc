#include "backend/cuda/kept_gradients.h"

#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_test_util.h"
#include "test/unit/cuda/gpu_under_test.h"

namespace hp::test {
namespace {

/// A gradient of weights [rows, channels, pixels] in the library's form, and that of the values.
struct Gradient {
  int64_t rows, channels, pixels, stride;
  ElementType element;
  bool add;
  Values from, to, before;

  Gradient(int64_t rows, int64_t channels, int64_t pixels, int64_t stride, ElementType element, bool add, uint32_t seed)
      : rows(rows), channels(channels), pixels(pixels), stride(stride), element(element), add(add) {
    from.resize(rows * pixels * stride);
    WriteTensor(Source(), RandomValues(rows * pixels * stride, seed));
    to = before = RandomValues(count(), seed + 1);
  }
  int64_t count() const { return rows * channels * pixels; }
  Tensor Source() { return {{Shape{rows * pixels * stride}, 1, element}, from.data()}; }
  cuda::KeptGradient Kept() { return {{from.data(), element, channels, pixels, stride}, count(), add, to.data()}; }
  Values Want() {
    const Values source = ReadTensor(Source());
    Values want = before;
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t pixel = i % pixels, line = i / pixels, row = line / channels, channel = line % channels;
      const float value = source[(row * pixels + pixel) * stride + channel];
      want[i] = add ? want[i] + value : value;
    }
    return want;
  }
};

cuda::KeptGradients OfTheGpu() { return cuda::KeptGradients(GpuUnderTest().stream(Device::kCompute)); }

void Synchronize() { ASSERT_TRUE(GpuUnderTest().Synchronize().ok()); }

/// More than one launch takes, of all forms.
TEST(KeptGradients, BecomeThoseOfTheValues) {
  for (const ElementType element : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    std::vector<Gradient> gradients;
    for (uint32_t i = 0; i < 130; ++i) {
      const int64_t channels = 1 + i % 6, pixels = i % 3 == 0 ? 1 : 1 + i % 11, stride = i % 5 == 0 ? 8 : channels;
      gradients.emplace_back(1 + i % 7, channels, pixels, stride, element, i % 2 == 0, i);
    }
    cuda::KeptGradients kept = OfTheGpu();
    for (Gradient& gradient : gradients) kept.Keep(gradient.Kept());
    Synchronize();
    for (Gradient& gradient : gradients) EXPECT_EQ(gradient.to, gradient.before) << "nobody has asked for it";
    kept.Finish();
    Synchronize();
    for (Gradient& gradient : gradients) EXPECT_EQ(gradient.to, gradient.Want());
    kept.Finish();
    Synchronize();
    for (Gradient& gradient : gradients) EXPECT_EQ(gradient.to, gradient.Want()) << "it was added once more";
  }
}

/// Two layers share weights: the first one's gradient is added before the second's takes its place.
TEST(KeptGradients, AreFinishedBeforeTheirMemoryIsWritten) {
  Gradient gradient(2, 3, 4, 3, ElementType::kBFloat16, true, 5);
  const Values want = gradient.Want();
  cuda::KeptGradients kept = OfTheGpu();
  kept.Keep(gradient.Kept());
  kept.BeforeWriting(gradient.to.data());
  Synchronize();
  EXPECT_EQ(gradient.to, gradient.before) << "that memory holds none";
  kept.BeforeWriting(gradient.from.data());
  Synchronize();
  EXPECT_EQ(gradient.to, want);
}

TEST(KeptGradients, TakeOneLaunchFor48) {
  auto* const gpu = dynamic_cast<FakeGpu*>(UnderTest().device.get());
  if (gpu == nullptr) GTEST_SKIP() << "counts the launches of a fake";
  std::vector<Gradient> gradients;
  for (uint32_t i = 0; i < 57; ++i) gradients.emplace_back(4, 3, 9, 3, ElementType::kBFloat16, false, i);
  cuda::KeptGradients kept = OfTheGpu();
  const int before = gpu->launches();
  for (Gradient& gradient : gradients) kept.Keep(gradient.Kept());
  kept.Finish();
  EXPECT_EQ(gpu->launches() - before, 2);
  Synchronize();
}

}  // namespace
}  // namespace hp::test
