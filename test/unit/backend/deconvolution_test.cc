#include "test/unit/backend/convolution_case.h"

// Cases of deconvolutions for the tests of convolution_test.cc.
namespace hp::test {
namespace {

const ConvolutionCase kDeconvolutions[] = {
    {.name = "blocked", .in = {2, 32, 3, 4}, .num_output = 16, .kernel_h = 3, .kernel_w = 3, .out = {2, 16, 5, 6}},
    {.name = "blocked, twice as large",
     .in = {2, 16, 4, 3},
     .num_output = 32,
     .kernel_h = 4,
     .kernel_w = 4,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1,
     .out = {2, 32, 8, 6}},
    {.name = "blocked groups",
     .in = {2, 32, 3, 3},
     .num_output = 64,
     .kernel_h = 2,
     .kernel_w = 2,
     .stride_h = 2,
     .stride_w = 2,
     .group = 2,
     .out = {2, 64, 6, 6}},
    {.name = "first",
     .in = {2, 3, 4, 4},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .input_gradient = false,
     .out = {2, 16, 9, 9}},
    {.name = "one channel to one",
     .in = {3, 1, 4, 5},
     .num_output = 1,
     .kernel_h = 4,
     .kernel_w = 4,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1,
     .bias = false,
     .out = {3, 1, 8, 10}},
    {.name = "odd, gaps between windows",
     .in = {2, 5, 3, 3},
     .num_output = 7,
     .kernel_h = 2,
     .kernel_w = 1,
     .stride_h = 3,
     .stride_w = 2,
     .out = {2, 7, 8, 5}},
    {.name = "odd, uneven window",
     .in = {2, 5, 4, 5},
     .num_output = 7,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 0,
     .dilation_h = 2,
     .dilation_w = 1,
     .out = {2, 7, 6, 10}},
    {.name = "blocked, dilated",
     .in = {1, 16, 4, 4},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .dilation_h = 2,
     .dilation_w = 2,
     .bias = false,
     .out = {1, 16, 6, 6}},
    {.name = "odd groups, no bias",
     .in = {2, 6, 4, 4},
     .num_output = 9,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .group = 3,
     .bias = false,
     .out = {2, 9, 4, 4}},
    {.name = "of each channel alone, as FCN enlarges scores",
     .in = {2, 21, 3, 3},
     .num_output = 21,
     .kernel_h = 4,
     .kernel_w = 4,
     .stride_h = 2,
     .stride_w = 2,
     .group = 21,
     .bias = false,
     .out = {2, 21, 8, 8}},
    {.name = "blocked, of each channel alone",
     .in = {2, 16, 3, 3},
     .num_output = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1,
     .group = 16,
     .out = {2, 16, 5, 5}},
    {.name = "padding of more than the window",
     .in = {2, 4, 5, 5},
     .num_output = 3,
     .kernel_h = 2,
     .kernel_w = 2,
     .pad_h = 2,
     .pad_w = 2,
     .out = {2, 3, 2, 2}},
    {.name = "of one pixel", .in = {3, 20, 1, 1}, .num_output = 6, .kernel_h = 4, .kernel_w = 3, .out = {3, 6, 4, 3}},
    {.name = "one window of one pixel",
     .in = {1, 2, 1, 1},
     .num_output = 3,
     .kernel_h = 1,
     .kernel_w = 1,
     .out = {1, 3, 1, 1}},
};

std::vector<ConvolutionCase> Deconvolutions() {
  std::vector<ConvolutionCase> cases(std::begin(kDeconvolutions), std::end(kDeconvolutions));
  for (ConvolutionCase& c : cases) c.deconvolution = true;
  return cases;
}

}  // namespace

Values DeconvolutionReference(const ConvolutionCase& c, const Values& in, const Values& weights, const Values& bias) {
  const int64_t channels = c.in[1] / c.group, outputs = c.num_output / c.group, pixels = c.out[2] * c.out[3];
  std::vector<double> sums(c.out.count());
  for (int64_t i = 0; i < c.out.count(); ++i) sums[i] = bias.empty() ? 0 : bias[i / pixels % c.num_output];
  for (int64_t i = 0; i < c.in.count(); ++i) {  // each input adds a window to the output
    const int64_t x = i % c.in[3], y = i / c.in[3] % c.in[2], channel = i / (c.in[3] * c.in[2]) % c.in[1];
    const int64_t n = i / c.in.count(1), first = channel / channels * outputs;
    for (int64_t w = 0; w < outputs * c.kernel_h * c.kernel_w; ++w) {
      const int64_t kw = w % c.kernel_w, kh = w / c.kernel_w % c.kernel_h, o = w / (c.kernel_w * c.kernel_h);
      const int64_t to_x = x * c.stride_w - c.pad_w + kw * c.dilation_w;
      const int64_t to_y = y * c.stride_h - c.pad_h + kh * c.dilation_h;
      if (to_x < 0 || to_y < 0 || to_x >= c.out[3] || to_y >= c.out[2]) continue;
      sums[((n * c.num_output + first + o) * c.out[2] + to_y) * c.out[3] + to_x] +=
          static_cast<double>(in[i]) * weights[channel * outputs * c.kernel_h * c.kernel_w + w];
    }
  }
  return Values(sums.begin(), sums.end());
}

INSTANTIATE_TEST_SUITE_P(Deconvolutions, ConvolutionTest, testing::ValuesIn(Deconvolutions()), NameOf);

}  // namespace hp::test
