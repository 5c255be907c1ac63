#include "test/unit/layers/layer_test_util.h"

#include <gmock/gmock.h>

// Parameters and shapes of Convolution, Pooling, LRN and InnerProduct.
namespace hp::test {
namespace {

using testing::HasSubstr;

std::string LayerText(const std::string& type, const std::string& body) {
  return "name: \"x\" bottom: \"a\" top: \"b\" type: \"" + type + "\" " + body;
}
std::string Convolution(const std::string& fields) {
  return LayerText("Convolution", "convolution_param { " + fields + " }");
}
std::string Deconvolution(const std::string& fields) {
  return LayerText("Deconvolution", "convolution_param { " + fields + " }");
}
std::string Pooling(const std::string& fields) { return LayerText("Pooling", "pooling_param { " + fields + " }"); }
std::string Lrn(const std::string& fields) { return LayerText("LRN", "lrn_param { " + fields + " }"); }
std::string InnerProduct(const std::string& fields) {
  return LayerText("InnerProduct", "inner_product_param { " + fields + " }");
}

Shape OutputOf(const std::string& text, const Shape& in) {
  const LayerUnderTest layer(text);
  const auto out = layer->OutputShapes({in});
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? out->at(0) : Shape();
}

std::string ShapeError(const std::string& text, const Shape& in) {
  const LayerUnderTest layer(text);
  const auto out = layer->OutputShapes({in});
  EXPECT_FALSE(out.ok());
  return out.status().message();
}

TEST(ConvolutionLayer, OutputShapes) {
  EXPECT_EQ(OutputOf(Convolution("num_output: 96 kernel_size: 11 stride: 4"), {2, 3, 227, 227}),
            (Shape{2, 96, 55, 55}));
  EXPECT_EQ(OutputOf(Convolution("num_output: 32 kernel_size: 5 pad: 2"), {2, 3, 32, 32}), (Shape{2, 32, 32, 32}));
  EXPECT_EQ(OutputOf(Convolution("num_output: 4 kernel_size: 3 kernel_size: 1"), {1, 2, 9, 9}), (Shape{1, 4, 7, 9}));
  EXPECT_EQ(
      OutputOf(Convolution("num_output: 4 kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 pad_w: 1"), {1, 2, 9, 9}),
      (Shape{1, 4, 5, 9}));
  EXPECT_EQ(OutputOf(Convolution("num_output: 4 kernel_size: 3 dilation: 2"), {1, 2, 9, 9}), (Shape{1, 4, 5, 5}));
}

/// All of Caffe's ways to write one window, for the three layers that have it.
TEST(ConvolutionLayer, SpellingsOfAWindow) {
  const char* const spellings[] = {
      "kernel_size: 3 kernel_size: 2 stride: 2 stride: 1 pad: 1 pad: 0 dilation: 1 dilation: 2",
      "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 dilation: 1 dilation: 2",
      "kernel_h: 3 kernel_w: 2 stride: 2 stride: 1 pad_h: 1 dilation: 1 dilation: 2 axis: 1",
      ("kernel_size: 3 kernel_size: 2 stride_h: 2 stride_w: 1 pad: 1 pad: 0 dilation: 1 dilation: 2 axis: -3 "
       "force_nd_im2col: true engine: CAFFE")};
  for (const char* window : spellings) {
    const std::string with_outputs = std::string("num_output: 4 ") + window;
    EXPECT_EQ(OutputOf(Convolution(with_outputs), {1, 2, 9, 9}), (Shape{1, 4, 5, 7})) << window;
    EXPECT_EQ(OutputOf(Deconvolution(with_outputs), {1, 2, 5, 7}), (Shape{1, 4, 9, 9})) << window;
    EXPECT_EQ(OutputOf(LayerText("Im2col", std::string("convolution_param { ") + window + " }"), {1, 2, 9, 9}),
              (Shape{1, 12, 5, 7}))
        << window;
  }
  for (const char* layer : {"Convolution", "Deconvolution"}) {
    const auto square = [&](const std::string& window) {
      return OutputOf(LayerText(layer, "convolution_param { num_output: 4 " + window + " }"), {1, 2, 9, 9});
    };
    EXPECT_EQ(square("kernel_size: 3 stride: 2 pad: 1 dilation: 1"),
              square("kernel_size: 3 kernel_size: 3 stride: 2 stride: 2 pad: 1 pad: 1 dilation: 1 dilation: 1"));
    EXPECT_EQ(square("kernel_size: 3"), square("kernel_size: 3 stride: 1 pad: 0 dilation: 1"));
  }
}

TEST(ConvolutionLayer, Params) {
  const LayerUnderTest layer(
      Convolution("num_output: 8 group: 2 kernel_h: 3 kernel_w: 5 weight_filler { type: \"xavier\" }") +
      "param { lr_mult: 2 decay_mult: 3 } param { lr_mult: 4 decay_mult: 0 }");
  const auto params = layer->Params({{1, 6, 9, 9}});
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[0].name, "x.0");
  EXPECT_EQ(params[0].shape, (Shape{8, 3, 3, 5}));
  EXPECT_EQ(params[0].lr_mult, 2);
  EXPECT_EQ(params[0].decay_mult, 3);
  ASSERT_NE(params[0].filler, nullptr);
  EXPECT_EQ(params[0].filler->type(), "xavier");
  EXPECT_EQ(params[1].name, "x.1");
  EXPECT_EQ(params[1].shape, (Shape{8}));
  EXPECT_EQ(params[1].lr_mult, 4);
  EXPECT_EQ(params[1].decay_mult, 0);
  EXPECT_EQ(params[1].filler, nullptr);
  const LayerUnderTest unbiased(
      Convolution("num_output: 8 kernel_size: 1 bias_term: false bias_filler { type: \"of nobody\" }"));
  EXPECT_EQ(unbiased->Params({{1, 6, 9, 9}}).size(), 1u);
}

TEST(ConvolutionLayer, MakesItsOp) {
  LayerUnderTest layer(Convolution("num_output: 8 kernel_size: 3 pad: 1"));
  EXPECT_EQ(layer.MakeOp({{Shape{2, 3, 5, 5}, 1}})->outputs()[0].shape, (Shape{2, 8, 5, 5}));
}

TEST(ConvolutionLayer, MistakesAreNamed) {
  EXPECT_EQ(CreateError(Convolution("kernel_size: 3")),
            "layer \"x\": convolution_param: num_output is missing or 0; expected at least 1");
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 weight_filler { type: \"no\" }")),
              HasSubstr("convolution_param: weight_filler: unknown filler type \"no\""));
  EXPECT_EQ(CreateError(Convolution("num_output: 4")), "layer \"x\": convolution_param has no kernel_size");
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 0")), HasSubstr("kernel_size: 0 x 0"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 4000000000")), HasSubstr("kernel_size: 4000000000"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 3 kernel_h: 3 kernel_w: 3")),
              HasSubstr("both kernel_size and kernel_h"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_h: 3")), HasSubstr("kernel_h without kernel_w"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 stride_w: 3")),
              HasSubstr("stride_w without stride_h"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 kernel_size: 1 kernel_size: 1")),
              HasSubstr("3 values of kernel_size"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 stride: 0")), HasSubstr("stride: 0 x 0"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 dilation: 0")), HasSubstr("dilation: 0 x 0"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 group: 3")), HasSubstr("group: 3"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 group: 0")), HasSubstr("group: 0"));
  EXPECT_THAT(CreateError(Convolution("num_output: 4 kernel_size: 1 axis: 2")), HasSubstr("axis: 2"));
  for (const char* axis : {"0", "2", "3", "-1", "-2", "-4"}) {
    for (const char* layer : {"Convolution", "Deconvolution"}) {
      EXPECT_EQ(
          CreateError(
              LayerText(layer, std::string("convolution_param { num_output: 4 kernel_size: 1 axis: ") + axis + " }")),
          std::string("layer \"x\": convolution_param { axis: ") + axis +
              " }: expected 1, the channels of [rows, channels, height, width], or -3, which is the same; windows "
              "of one or three axes are not supported");
    }
  }
}

TEST(ConvolutionLayer, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(ShapeError(Convolution("num_output: 4 kernel_size: 5"), {1, 2, 4, 9}), HasSubstr("[1 2 4 9]"));
  EXPECT_THAT(ShapeError(Convolution("num_output: 4 kernel_size: 1 group: 2"), {1, 3, 4, 9}), HasSubstr("3 channels"));
  EXPECT_THAT(ShapeError(Convolution("num_output: 4 kernel_size: 1"), {1, 3}), HasSubstr("[1 3]"));
  EXPECT_THAT(ShapeError(Convolution("num_output: 4 kernel_size: 1 weight_filler { type: \"gaussian\" sparse: 5 }"),
                         {1, 3, 4, 4}),
              HasSubstr("convolution_param: weight_filler: sparse 5"));
}

TEST(DeconvolutionLayer, OutputShapes) {
  // FCN-32s: 16 x 18 scores become 544 x 608, twice as many by upscore2 of FCN-16s 34 x 38.
  EXPECT_EQ(OutputOf(Deconvolution("num_output: 21 kernel_size: 64 stride: 32 bias_term: false"), {1, 21, 16, 18}),
            (Shape{1, 21, 544, 608}));
  EXPECT_EQ(OutputOf(Deconvolution("num_output: 21 kernel_size: 4 stride: 2"), {1, 21, 16, 18}),
            (Shape{1, 21, 34, 38}));
  EXPECT_EQ(
      OutputOf(Deconvolution("num_output: 4 kernel_h: 5 kernel_w: 3 stride_h: 2 stride_w: 1 pad_w: 1"), {1, 2, 4, 4}),
      (Shape{1, 4, 11, 4}));
  EXPECT_EQ(OutputOf(Deconvolution("num_output: 4 kernel_size: 3 dilation: 2 pad: 1"), {1, 2, 4, 4}),
            (Shape{1, 4, 6, 6}));
}

TEST(DeconvolutionLayer, Params) {
  const LayerUnderTest layer(
      Deconvolution("num_output: 8 group: 2 kernel_h: 3 kernel_w: 5 weight_filler { type: \"xavier\" }") +
      "param { lr_mult: 0 decay_mult: 3 } param { lr_mult: 4 decay_mult: 0 }");
  const auto params = layer->Params({{1, 6, 9, 9}});
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[0].name, "x.0");
  EXPECT_EQ(params[0].shape, (Shape{6, 4, 3, 5}));
  EXPECT_EQ(params[0].lr_mult, 0);
  EXPECT_EQ(params[0].decay_mult, 3);
  ASSERT_NE(params[0].filler, nullptr);
  EXPECT_EQ(params[0].filler->type(), "xavier");
  EXPECT_EQ(params[1].shape, (Shape{8}));
  EXPECT_EQ(params[1].lr_mult, 4);
  EXPECT_EQ(params[1].filler, nullptr);
  EXPECT_FALSE(layer->learns(0));
  const LayerUnderTest unbiased(Deconvolution("num_output: 8 kernel_size: 1 bias_term: false"));
  EXPECT_EQ(unbiased->Params({{1, 6, 9, 9}}).size(), 1u);
}

TEST(DeconvolutionLayer, MakesItsOp) {
  LayerUnderTest layer(Deconvolution("num_output: 8 kernel_h: 3 kernel_w: 2 stride: 2 pad_h: 1 dilation: 2"));
  EXPECT_EQ(layer.MakeOp({{Shape{2, 3, 5, 5}, 1}})->outputs()[0].shape, (Shape{2, 8, 11, 11}));
}

TEST(DeconvolutionLayer, MistakesAreNamed) {
  EXPECT_EQ(CreateError(Deconvolution("kernel_size: 3")),
            "layer \"x\": convolution_param: num_output is missing or 0; expected at least 1");
  EXPECT_EQ(CreateError(Deconvolution("num_output: 4")), "layer \"x\": convolution_param has no kernel_size");
  EXPECT_THAT(CreateError(Deconvolution("num_output: 4 kernel_size: 1 group: 3")), HasSubstr("group: 3"));
  EXPECT_THAT(ShapeError(Deconvolution("num_output: 4 kernel_size: 1 group: 2"), {1, 3, 4, 9}),
              HasSubstr("group: 2 } does not divide the bottom's 3 channels"));
  EXPECT_THAT(ShapeError(Deconvolution("num_output: 4 kernel_size: 1"), {1, 3}), HasSubstr("[1 3]"));
  EXPECT_EQ(ShapeError(Deconvolution("num_output: 4 kernel_size: 2 pad: 2"), {1, 3, 3, 9}),
            "layer \"x\": pad 2 x 2 leaves nothing of what bottom shape [1 3 3 9] becomes; expected a smaller one");
  EXPECT_THAT(ShapeError(Deconvolution("num_output: 4 kernel_size: 1 weight_filler { type: \"gaussian\" sparse: 4 }"),
                         {1, 3, 4, 4}),
              HasSubstr("convolution_param: weight_filler: sparse 4"));
}

TEST(PoolingLayer, OutputShapes) {
  EXPECT_EQ(OutputOf(Pooling("kernel_size: 3 stride: 2"), {2, 96, 55, 55}), (Shape{2, 96, 27, 27}));
  EXPECT_EQ(OutputOf(Pooling("kernel_size: 3 stride: 2"), {2, 32, 32, 32}), (Shape{2, 32, 16, 16}));
  EXPECT_EQ(OutputOf(Pooling("kernel_size: 3 stride: 2 round_mode: FLOOR"), {2, 32, 32, 32}), (Shape{2, 32, 15, 15}));
  EXPECT_EQ(OutputOf(Pooling("kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0"), {1, 4, 6, 6}),
            (Shape{1, 4, 7, 3}));
  EXPECT_EQ(OutputOf(Pooling("pool: AVE global_pooling: true"), {2, 32, 7, 5}), (Shape{2, 32, 1, 1}));
}

TEST(PoolingLayer, MistakesAreNamed) {
  EXPECT_EQ(CreateError(Pooling("pool: MAX")), "layer \"x\": pooling_param has no kernel_size");
  EXPECT_THAT(CreateError(Pooling("kernel_size: 2 kernel_h: 2")), HasSubstr("both kernel_size and kernel_h"));
  EXPECT_THAT(CreateError(Pooling("kernel_size: 2 pad: 2")), HasSubstr("pad: 2 x 2"));
  EXPECT_THAT(CreateError(Pooling("kernel_size: 2 stride: 0")), HasSubstr("stride: 0 x 0"));
  EXPECT_THAT(CreateError(Pooling("global_pooling: true kernel_size: 2")), HasSubstr("global_pooling"));
  EXPECT_THAT(CreateError(Pooling("global_pooling: true stride: 2")), HasSubstr("pad 0 and stride 1"));
}

TEST(PoolingLayer, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(ShapeError(Pooling("kernel_size: 2"), {1, 3}), HasSubstr("[1 3]"));
  EXPECT_THAT(ShapeError(Pooling("kernel_size: 8 stride: 2"), {1, 3, 4, 4}), HasSubstr("8 x 8"));
  // Caffe makes 3 windows of 5 pixels here, the last at pixel 6.
  EXPECT_THAT(ShapeError(Pooling("kernel_size: 1 stride: 3"), {1, 3, 5, 5}), HasSubstr("smaller stride"));
}

TEST(LrnLayer, ParametersAndShapes) {
  EXPECT_EQ(OutputOf(Lrn("local_size: 5"), {2, 6, 3, 3}), (Shape{2, 6, 3, 3}));
  EXPECT_THAT(ShapeError(Lrn("local_size: 5"), {2, 6}), HasSubstr("[2 6]"));
  EXPECT_THAT(CreateError(Lrn("local_size: 4")), HasSubstr("local_size: 4"));
  EXPECT_THAT(CreateError(Lrn("local_size: 0")), HasSubstr("odd"));
  // Forward of one place: x (k + alpha x^2)^-beta across channels, k = 1 within one.
  for (const auto& [region, want] : {std::pair("ACROSS_CHANNELS", 0.25f), std::pair("WITHIN_CHANNEL", 1 / 3.0f)}) {
    LayerUnderTest layer(Lrn(std::string("local_size: 1 alpha: 2 beta: 1 k: 2 norm_region: ") + region));
    const TensorDesc in = {Shape{1, 1, 1, 1}, 1};
    OpRunner runner(layer.MakeOp({in}), {in});
    runner.SetInput(0, {1.0f});
    runner.Forward();
    EXPECT_NEAR(runner.Output()[0], want, 1e-6f) << region;
  }
}

TEST(InnerProductLayer, ShapesAndParams) {
  const LayerUnderTest layer(InnerProduct("num_output: 10 bias_filler { type: \"constant\" value: 1 }") +
                             "param { lr_mult: 2 }");
  EXPECT_EQ(layer->OutputShapes({{4, 3, 2, 5}}).value(), (std::vector<Shape>{{4, 10}}));
  EXPECT_EQ(layer->channel_use(), ChannelUse::kSplitOutput);
  const auto params = layer->Params({{4, 3, 2, 5}});
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[0].shape, (Shape{10, 30}));
  EXPECT_EQ(params[0].lr_mult, 2);
  EXPECT_EQ(params[0].filler, nullptr);
  EXPECT_EQ(params[1].shape, (Shape{10}));
  EXPECT_EQ(params[1].lr_mult, 1);
  ASSERT_NE(params[1].filler, nullptr);
  EXPECT_EQ(params[1].filler->value(), 1);
}

TEST(InnerProductLayer, AShardMakesItsOutputsFromSeveralBlocks) {
  LayerUnderTest layer(InnerProduct("num_output: 10"));
  layer.context().channel_begin = 3, layer.context().channel_end = 7, layer.context().channel_count = 10;
  const auto op = layer.CreateOp({{Shape{2, 4}, 1}, {Shape{2, 5}, 1}});
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op.value()->outputs()[0].shape, (Shape{2, 4}));
}

TEST(InnerProductLayer, MistakesAreNamed) {
  EXPECT_THAT(CreateError(InnerProduct("bias_term: true")), HasSubstr("num_output"));
  EXPECT_THAT(ShapeError(InnerProduct("num_output: 3"), {5}), HasSubstr("[5]"));
  EXPECT_THAT(CreateError(InnerProduct("num_output: 3 bias_filler { type: \"no\" }")),
              HasSubstr("inner_product_param: bias_filler"));
}

}  // namespace
}  // namespace hp::test
