// Gradients of convolutions as products of bfloat16 beside those of float32 convolutions of the same rounded numbers.
#include "backend/cpu/pixel_gradient.h"
#include "backend/cpu/window_gradient.h"
#include "test/support/elements.h"
#include "test/unit/backend/convolution_case.h"

namespace hp::test {
namespace {

constexpr ElementType kBFloat16 = ElementType::kBFloat16;

class ProductGradientTest : public testing::TestWithParam<ConvolutionCase> {
 protected:
  static Values RoundedValues(int64_t count, uint32_t seed) {
    Values values = RandomValues(count, seed);
    for (float& value : values) value = Rounded(kBFloat16, value);
    return values;
  }
  /// `values` in NHWC.
  static ReachableVector<BFloat16> Nhwc(const Shape& shape, const Values& values) {
    ReachableVector<BFloat16> data(shape.count());
    WriteTensor({{shape, shape[1], kBFloat16}, data.data()}, values);
    return data;
  }
};

TEST_P(ProductGradientTest, IsThatOfTheConvolution) {
  if (!CpuMultipliesBFloat16()) GTEST_SKIP() << "no AVX512_BF16 or AMX here";
  const ConvolutionCase& c = GetParam();
  const Values x = RoundedValues(c.in.count(), 1), d_y = RoundedValues(c.out.count(), 2);
  const auto op = MakeCpuBackend()->Convolution(c.desc(), {{c.in, 1}}).value();
  ASSERT_EQ(op->outputs()[0].shape, c.out);
  OpRunner plain(op.get(), {{c.in, 1}}, {c.weights(), {c.num_output}});
  plain.SetInput(0, x);
  plain.SetOutputGradient(0, d_y);
  plain.Forward();
  plain.BackwardParams();

  const onednn::Context context;
  std::unique_ptr<onednn::ProductGradient> gradient;
  if (onednn::PixelGradient::Fits(c.desc())) {
    gradient = std::make_unique<onednn::PixelGradient>(context, c.desc(), c.in, c.out);
  } else {
    EXPECT_TRUE(onednn::WindowGradient::Fits(c.desc(), c.in, c.out));
    auto of_windows = std::make_unique<onednn::WindowGradient>(context, c.desc(), c.in, c.out);
    ASSERT_TRUE(of_windows->usable());
    gradient = std::move(of_windows);
  }
  const auto in = Nhwc(c.in, x), d_out = Nhwc(c.out, d_y);
  ReachableVector<std::byte> scratch(gradient->scratch_bytes() + 64, std::byte{0xFF});
  std::byte* const aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  Values d_weights(c.weights().count(), std::nanf("")), d_bias(c.num_output, std::nanf(""));
  const auto run = [&](bool add, float* bias) {
    gradient->Run(context, in.data(), d_out.data(), add, d_weights.data(), bias, aligned);
  };
  const float tolerance = 1e-6f * static_cast<float>(c.out.count() / c.num_output);
  run(false, nullptr);
  ExpectNear(d_weights, plain.ParamGradient(0), tolerance, "weights");
  run(false, d_bias.data());
  ExpectNear(d_bias, plain.ParamGradient(1), tolerance, "bias");
  run(true, d_bias.data());
  const auto twice = [](Values values) {
    for (float& value : values) value *= 2;
    return values;
  };
  ExpectNear(d_weights, twice(plain.ParamGradient(0)), tolerance, "weights, added");
  ExpectNear(d_bias, twice(plain.ParamGradient(1)), tolerance, "bias, added");
}

const ConvolutionCase kCases[] = {
    {.name = "pixels", .in = {3, 13, 6, 5}, .num_output = 8, .kernel_h = 1, .kernel_w = 1, .out = {3, 8, 6, 5}},
    {.name = "pixels with strides",
     .in = {2, 20, 7, 5},
     .num_output = 9,
     .kernel_h = 1,
     .kernel_w = 1,
     .stride_h = 3,
     .stride_w = 2,
     .out = {2, 9, 3, 3}},
    {.name = "windows",
     .in = {5, 13, 6, 5},
     .num_output = 8,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .out = {5, 8, 6, 5}},
    {.name = "windows of one channel",
     .in = {4, 1, 9, 8},
     .num_output = 7,
     .kernel_h = 5,
     .kernel_w = 3,
     .out = {4, 7, 5, 6}},
    {.name = "windows that see nothing",
     .in = {3, 6, 4, 3},
     .num_output = 5,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_w = 2,
     .pad_h = 4,
     .pad_w = 3,
     .out = {3, 5, 10, 4}},
    {.name = "large windows of few channels",
     .in = {2, 3, 51, 47},
     .num_output = 8,
     .kernel_h = 11,
     .kernel_w = 11,
     .stride_h = 4,
     .stride_w = 4,
     .out = {2, 8, 11, 10}},
    {.name = "several products",
     .in = {10, 512, 8, 8},
     .num_output = 20,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .out = {10, 20, 8, 8}},
};
INSTANTIATE_TEST_SUITE_P(Cases, ProductGradientTest, testing::ValuesIn(kCases), NameOf);

TEST(WindowGradient, LeavesLargeImagesAndGroupsToTheConvolution) {
  const ConvolutionDesc plain = {.num_output = 8, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const ConvolutionDesc groups = {.num_output = 8, .group = 2, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  EXPECT_TRUE(onednn::WindowGradient::Fits(plain, {2, 16, 7, 7}, {2, 8, 7, 7}));
  EXPECT_FALSE(onednn::WindowGradient::Fits(plain, {2, 16, 14, 14}, {2, 8, 14, 14}));
  EXPECT_FALSE(onednn::WindowGradient::Fits(groups, {2, 16, 7, 7}, {2, 8, 7, 7}));
}

}  // namespace
}  // namespace hp::test
