#include "test/unit/backend/convolution_case.h"

namespace hp::test {
namespace {

// What the layouts go by: channels that fill blocks, few, odd and grouped ones; then windows that leave a rest.
const ConvolutionCase kConvolutions[] = {
    {.name = "first",
     .in = {2, 3, 9, 9},
     .num_output = 16,
     .kernel_h = 5,
     .kernel_w = 5,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 2,
     .pad_w = 2,
     .input_gradient = false,
     .out = {2, 16, 5, 5}},
    {.name = "first with gradient",
     .in = {2, 3, 6, 6},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .out = {2, 16, 4, 4}},
    {.name = "one channel, blocked",
     .in = {2, 1, 8, 8},
     .num_output = 32,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .input_gradient = false,
     .out = {2, 32, 8, 8}},
    {.name = "one channel, odd outputs",
     .in = {3, 1, 7, 7},
     .num_output = 5,
     .kernel_h = 3,
     .kernel_w = 3,
     .out = {3, 5, 5, 5}},
    {.name = "blocked",
     .in = {2, 16, 7, 5},
     .num_output = 32,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .out = {2, 32, 7, 5}},
    {.name = "blocked groups",
     .in = {2, 32, 5, 5},
     .num_output = 64,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .group = 2,
     .out = {2, 64, 5, 5}},
    {.name = "blocked in, odd out",
     .in = {2, 32, 4, 4},
     .num_output = 10,
     .kernel_h = 1,
     .kernel_w = 1,
     .out = {2, 10, 4, 4}},
    {.name = "odd in, blocked out",
     .in = {2, 5, 6, 6},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .out = {2, 16, 4, 4}},
    {.name = "odd, uneven window",
     .in = {2, 5, 9, 8},
     .num_output = 7,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 0,
     .dilation_h = 2,
     .dilation_w = 1,
     .out = {2, 7, 7, 4}},
    {.name = "odd groups, no bias",
     .in = {2, 6, 5, 5},
     .num_output = 9,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .group = 3,
     .bias = false,
     .out = {2, 9, 5, 5}},
    {.name = "depthwise",
     .in = {2, 16, 5, 5},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .group = 16,
     .out = {2, 16, 3, 3}},
    {.name = "blocked, dilated",
     .in = {1, 16, 9, 9},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 2,
     .pad_w = 2,
     .dilation_h = 2,
     .dilation_w = 2,
     .bias = false,
     .out = {1, 16, 9, 9}},
    {.name = "rest of the stride",
     .in = {2, 16, 10, 11},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 3,
     .stride_w = 4,
     .out = {2, 16, 3, 3}},
    {.name = "whole image",
     .in = {3, 16, 4, 5},
     .num_output = 16,
     .kernel_h = 4,
     .kernel_w = 5,
     .stride_h = 4,
     .out = {3, 16, 1, 1}},
    {.name = "whole image, one channel, no bias",
     .in = {2, 1, 6, 3},
     .num_output = 7,
     .kernel_h = 6,
     .kernel_w = 3,
     .bias = false,
     .input_gradient = false,
     .out = {2, 7, 1, 1}},
    {.name = "whole image, groups",
     .in = {2, 6, 4, 4},
     .num_output = 6,
     .kernel_h = 4,
     .kernel_w = 4,
     .group = 2,
     .out = {2, 6, 1, 1}},
    {.name = "whole image and padding",
     .in = {2, 4, 3, 3},
     .num_output = 5,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .out = {2, 5, 3, 3}},
    {.name = "large padding",
     .in = {2, 16, 5, 6},
     .num_output = 16,
     .kernel_h = 9,
     .kernel_w = 9,
     .pad_h = 4,
     .pad_w = 4,
     .out = {2, 16, 5, 6}},
    {.name = "of images, large window with stride and padding",
     .in = {2, 3, 23, 23},
     .num_output = 16,
     .kernel_h = 11,
     .kernel_w = 11,
     .stride_h = 4,
     .stride_w = 4,
     .pad_h = 2,
     .pad_w = 2,
     .input_gradient = false,
     .out = {2, 16, 5, 5}},
    {.name = "one channel, large padding",
     .in = {2, 1, 8, 8},
     .num_output = 16,
     .kernel_h = 9,
     .kernel_w = 9,
     .pad_h = 4,
     .pad_w = 4,
     .bias = false,
     .out = {2, 16, 8, 8}},
    {.name = "one row", .in = {1, 2, 1, 1}, .num_output = 3, .kernel_h = 1, .kernel_w = 1, .out = {1, 3, 1, 1}},
};

}  // namespace

Values ConvolutionReference(const ConvolutionCase& c, const Values& in, const Values& weights, const Values& bias) {
  Values out;
  const int64_t channels = c.in[1] / c.group, outputs = c.num_output / c.group;
  for (int64_t n = 0; n < c.out[0]; ++n) {
    for (int64_t o = 0; o < c.out[1]; ++o) {
      for (int64_t y = 0; y < c.out[2]; ++y) {
        for (int64_t x = 0; x < c.out[3]; ++x) {
          double sum = bias.empty() ? 0 : bias[o];
          for (int64_t i = 0; i < channels; ++i) {
            for (int64_t kh = 0; kh < c.kernel_h; ++kh) {
              for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
                const int64_t h = y * c.stride_h - c.pad_h + kh * c.dilation_h;
                const int64_t w = x * c.stride_w - c.pad_w + kw * c.dilation_w;
                if (h < 0 || w < 0 || h >= c.in[2] || w >= c.in[3]) continue;
                const int64_t channel = o / outputs * channels + i;
                sum += static_cast<double>(in[((n * c.in[1] + channel) * c.in[2] + h) * c.in[3] + w]) *
                       weights[((o * channels + i) * c.kernel_h + kh) * c.kernel_w + kw];
              }
            }
          }
          out.push_back(static_cast<float>(sum));
        }
      }
    }
  }
  return out;
}

TEST_P(ConvolutionTest, ForwardIsWhatItsDefinitionSays) {
  ForEachLayout([](OpRunner* runner) {
    const ConvolutionCase& c = GetParam();
    runner->Forward();
    const auto reference = c.deconvolution ? DeconvolutionReference : ConvolutionReference;
    const Values want = reference(c, runner->input(0), runner->Param(0), c.bias ? runner->Param(1) : Values());
    ExpectNear(runner->Output(), want, 1e-5f, "output");
  });
}

TEST_P(ConvolutionTest, GradientsMatchCentralDifferences) {
  ForEachLayout([](OpRunner* runner) {
    GradientOptions options;
    options.inputs = GetParam().input_gradient;
    CheckGradients(runner, options);
  });
}

TEST_P(ConvolutionTest, AccumulatedGradientsAreSums) {
  ForEachLayout([](OpRunner* runner) {
    const int64_t count = GetParam().out.count();
    std::vector<std::vector<Values>> gradients(2);
    runner->Forward();
    for (uint32_t pass = 0; pass < 2; ++pass) {
      runner->SetOutputGradient(0, RandomValues(count, 10 + pass));
      runner->BackwardParams();
      for (int i = 0; i < runner->params(); ++i) gradients[pass].push_back(runner->ParamGradient(i));
    }
    runner->SetOutputGradient(0, RandomValues(count, 10));
    runner->BackwardParams(/*accumulate=*/true);  // onto the second pass's
    for (int i = 0; i < runner->params(); ++i) {
      Values want = gradients[0][i];
      for (size_t j = 0; j < want.size(); ++j) want[j] += gradients[1][i][j];
      ExpectNear(runner->ParamGradient(i), want, 1e-5f, "sum of gradients " + std::to_string(i));
    }
  });
}

TEST_P(ConvolutionTest, PackedWeightsTakeWhatThePlanOfMemoryHeard) {
  ForEachLayout([](OpRunner* runner) {
    runner->Forward();
    runner->SetOutputGradient(0, RandomValues(GetParam().out.count(), 10));
    if (GetParam().input_gradient) runner->BackwardInput();
    runner->BackwardParams();
    runner->BackwardParams(/*accumulate=*/true);
    EXPECT_EQ(runner->packed_bytes(), runner->op()->packed_bytes());
  });
}

TEST_P(ConvolutionTest, TheSameCallGivesTheSameBits) {
  ForEachLayout([](OpRunner* runner) {
    runner->SetOutputGradient(0, RandomValues(GetParam().out.count(), 10));
    std::vector<std::vector<Values>> results(2);
    for (std::vector<Values>& result : results) {
      runner->Forward();
      result.push_back(runner->Output());
      runner->BackwardParams();
      result.push_back(runner->ParamGradient(0));
      if (!GetParam().input_gradient) continue;
      runner->BackwardInput();
      result.push_back(runner->InputGradient());
    }
    EXPECT_EQ(results[0], results[1]);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvolutionTest, testing::ValuesIn(kConvolutions), NameOf);

namespace {

TEST(ConvolutionLayouts, ChannelsThatFillBlocksStayBlocked) {
  if (!UnderTest().blocked_layouts) GTEST_SKIP() << "this backend has no blocked layouts";
  ConvolutionDesc desc;
  desc.num_output = 48, desc.kernel_h = desc.kernel_w = 3;
  auto op = UnderTest().backend->Convolution(desc, {{Shape{1, 32, 8, 8}, 1}});
  ASSERT_TRUE(op.ok()) << op.status();
  const TensorDesc out = op.value()->outputs()[0];
  EXPECT_TRUE(out.channel_block == 16 || out.channel_block == 8) << out.channel_block;
  auto next = UnderTest().backend->Convolution(desc, {out});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next.value()->outputs()[0].channel_block, out.channel_block);
}

TEST(ConvolutionParams, ANewVersionIsRepacked) {
  ConvolutionDesc desc;
  desc.num_output = 16, desc.kernel_h = desc.kernel_w = 2, desc.bias = false;
  const TensorDesc in = {Shape{1, 16, 2, 2}, 1};
  auto op = UnderTest().backend->Convolution(desc, {in});
  ASSERT_TRUE(op.ok()) << op.status();
  OpRunner runner(op->get(), {in}, {Shape{16, 16, 2, 2}});
  runner.SetInput(0, Values(in.count(), 1.0f));
  runner.SetOutputGradient(0, Values(16, 1.0f));
  for (float weight : {1.0f, 2.0f}) {
    runner.SetParam(0, Values(1024, weight));
    runner.Forward();
    EXPECT_EQ(runner.Output(), Values(16, 64 * weight));
    runner.BackwardInput();
    EXPECT_EQ(runner.InputGradient(), Values(in.count(), 16 * weight));
  }
}

}  // namespace
}  // namespace hp::test
