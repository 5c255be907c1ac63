// Im2col: each column's pixel, from the indices of Caffe's definition.
#include "test/unit/layers/layer_test_util.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

using testing::HasSubstr;

std::string Im2col(const std::string& fields) {
  return R"(name: "x" type: "Im2col" bottom: "a" top: "b" convolution_param { )" + fields + " }";
}

struct Im2colCase {
  const char* fields;
  Shape in;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  Shape out;  // worked out by hand
};

const Im2colCase kIm2colCases[] = {
    {"kernel_size: 3", {2, 3, 5, 6}, 3, 3, 1, 1, 0, 0, 1, 1, {2, 27, 3, 4}},
    {"kernel_size: 2 stride: 2", {2, 16, 5, 4}, 2, 2, 2, 2, 0, 0, 1, 1, {2, 64, 2, 2}},
    {"kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 3 pad_w: 2", {1, 5, 4, 6}, 2, 3, 1, 3, 0, 2, 1, 1, {1, 30, 3, 3}},
    {"kernel_size: 3 kernel_size: 2 pad: 2 pad: 1 dilation: 2 dilation: 3",
     {2, 4, 4, 5},
     3,
     2,
     1,
     1,
     2,
     1,
     2,
     3,
     {2, 24, 4, 4}},
    {"kernel_size: 1 stride: 3", {2, 1, 7, 8}, 1, 1, 3, 3, 0, 0, 1, 1, {2, 1, 3, 3}},
    {"kernel_size: 2 pad: 4 axis: -3 force_nd_im2col: true", {1, 2, 1, 1}, 2, 2, 1, 1, 4, 4, 1, 1, {1, 8, 8, 8}},
};

Values Im2colReference(const Im2colCase& c, const Values& x) {
  Values y;
  for (int64_t n = 0; n < c.out[0]; ++n) {
    for (int64_t column = 0; column < c.out[1]; ++column) {
      const int64_t kw = column % c.kernel_w, kh = column / c.kernel_w % c.kernel_h;
      const int64_t channel = column / (c.kernel_w * c.kernel_h);
      for (int64_t place = 0; place < c.out[2] * c.out[3]; ++place) {
        const int64_t h = place / c.out[3] * c.stride_h - c.pad_h + kh * c.dilation_h;
        const int64_t w = place % c.out[3] * c.stride_w - c.pad_w + kw * c.dilation_w;
        const bool inside = h >= 0 && h < c.in[2] && w >= 0 && w < c.in[3];
        y.push_back(inside ? x[((n * c.in[1] + channel) * c.in[2] + h) * c.in[3] + w] : 0);
      }
    }
  }
  return y;
}

TEST(Im2col, ColumnsAreWhatTheTapsSee) {
  for (const Im2colCase& c : kIm2colCases) {
    for (const TensorDesc& in : LayoutsOf(c.in)) {
      SCOPED_TRACE(std::string(c.fields) + ", " + Describe(in));
      LayerUnderTest layer(Im2col(c.fields));
      OpRunner runner(layer.MakeOp({in}), {in});
      ASSERT_EQ(runner.op()->outputs()[0].shape, c.out);
      runner.SetInput(0, RandomValues(in.count(), 1));
      runner.Forward();
      EXPECT_EQ(runner.Output(), Im2colReference(c, runner.input(0)));
    }
  }
}

TEST(Im2col, GradientsMatchCentralDifferences) {
  for (const Im2colCase& c : kIm2colCases) {
    for (const TensorDesc& in : LayoutsOf(c.in)) {
      SCOPED_TRACE(std::string(c.fields) + ", " + Describe(in));
      LayerUnderTest layer(Im2col(c.fields));
      OpRunner runner(layer.MakeOp({in}), {in});
      runner.SetInput(0, RandomValues(in.count(), 1));
      CheckGradients(&runner);
    }
  }
}

TEST(Im2col, AGradientThatNobodyWantsIsNotWritten) {
  const TensorDesc in = {{1, 2, 3, 3}, 1};
  LayerUnderTest layer(Im2col("kernel_size: 2"));
  OpRunner runner(layer.MakeOp({in}), {in});
  runner.SetInput(0, Values(in.count(), 1.0f));
  runner.SkipInputGradient(0);
  runner.Forward();
  runner.BackwardInput();
  EXPECT_TRUE(std::isnan(runner.InputGradient()[0]));
}

TEST(Im2col, MistakesAreNamed) {
  EXPECT_EQ(CreateError(Im2col("stride: 2")), "layer \"x\": convolution_param has no kernel_size");
  EXPECT_EQ(CreateError(Im2col("kernel_size: 2 num_output: 3")),
            "layer \"x\": convolution_param { num_output }: Im2col has no weights; expected a window alone");
  for (const char* field : {"group: 2", "bias_term: false", "weight_filler { }", "bias_filler { }"}) {
    EXPECT_THAT(CreateError(Im2col(std::string("kernel_size: 2 ") + field)), HasSubstr("Im2col has no weights"));
  }
  EXPECT_THAT(CreateError(Im2col("kernel_size: 2 axis: 2")), HasSubstr("axis: 2 }: expected 1, the channels"));
  const auto shape_error = [](const std::string& fields, const Shape& in) {
    const LayerUnderTest layer(Im2col(fields));
    return layer->OutputShapes({in}).status().message();
  };
  EXPECT_THAT(shape_error("kernel_size: 3", {1, 3}), HasSubstr("bottom shape [1 3] does not fit"));
  EXPECT_THAT(shape_error("kernel_size: 3", {1, 3, 2, 5}), HasSubstr("a kernel of 3 x 3 does not fit"));
  EXPECT_EQ(shape_error("kernel_size: 1048576 pad: 1048576", {1, 3, 2, 5}),
            "layer \"x\": a kernel of 1048576 x 1048576 is too large for bottom shape [1 3 2 5]; expected a top of at "
            "most 2147483647 channels");
}

}  // namespace
}  // namespace hp::test
