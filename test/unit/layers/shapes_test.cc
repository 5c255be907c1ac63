#include "test/unit/layers/layer_test_util.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

using testing::HasSubstr;

std::vector<Shape> Shapes(const LayerUnderTest& layer, const std::vector<Shape>& in) {
  const auto out = layer->OutputShapes(in);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? *out : std::vector<Shape>();
}

std::string ShapeError(const LayerUnderTest& layer, const std::vector<Shape>& in) {
  const auto out = layer->OutputShapes(in);
  EXPECT_FALSE(out.ok());
  return out.status().message();
}

TEST(Shapes, ElementwiseLayersKeepTheirInputs) {
  for (const char* type :
       {"ReLU", "Sigmoid", "TanH", "Dropout", "ELU", "AbsVal", "Power", "Exp", "Log", "BNLL", "Threshold", "Swish"}) {
    const LayerUnderTest layer(std::string("name: \"x\" bottom: \"a\" top: \"a\" type: \"") + type + "\"");
    EXPECT_EQ(Shapes(layer, {{4, 3, 2, 2}}), (std::vector<Shape>{{4, 3, 2, 2}}));
    EXPECT_EQ(layer->channel_use(), ChannelUse::kElementwise);
    EXPECT_TRUE(layer->allows_in_place());
    EXPECT_FALSE(layer->reads_labels());
    EXPECT_EQ(layer->loss_weight(0), 0);
  }
}

TEST(Shapes, Flatten) {
  const LayerUnderTest all(R"(name: "f" type: "Flatten" bottom: "a" top: "b")");
  EXPECT_EQ(Shapes(all, {{4, 3, 2, 5}}), (std::vector<Shape>{{4, 30}}));
  const LayerUnderTest middle(
      R"(name: "f" type: "Flatten" bottom: "a" top: "b" flatten_param { axis: 1 end_axis: -2 })");
  EXPECT_EQ(Shapes(middle, {{4, 3, 2, 5}}), (std::vector<Shape>{{4, 6, 5}}));
  const LayerUnderTest rows(R"(name: "f" type: "Flatten" bottom: "a" top: "b" flatten_param { axis: 0 })");
  EXPECT_THAT(ShapeError(rows, {{4, 3, 2, 5}}), HasSubstr("flatten_param { axis: 0 end_axis: -1 }"));
}

TEST(Shapes, Concat) {
  const std::string text = R"(name: "c" type: "Concat" bottom: "a" bottom: "b" top: "t" )";
  EXPECT_EQ(Shapes(LayerUnderTest(text), {{4, 3, 2, 5}, {4, 8, 2, 5}}), (std::vector<Shape>{{4, 11, 2, 5}}));
  EXPECT_EQ(Shapes(LayerUnderTest(text + "concat_param { axis: -1 }"), {{4, 3, 2, 5}, {4, 3, 2, 1}}),
            (std::vector<Shape>{{4, 3, 2, 6}}));
  EXPECT_EQ(Shapes(LayerUnderTest(text + "concat_param { concat_dim: 2 }"), {{4, 3, 2, 5}, {4, 3, 3, 5}}),
            (std::vector<Shape>{{4, 3, 5, 5}}));
  EXPECT_EQ(ShapeError(LayerUnderTest(text), {{4, 3, 2, 5}, {4, 8, 3, 5}}),
            "layer \"c\": bottom 1 has shape [4 8 3 5], bottom 0 [4 3 2 5]; only axis 1 may differ");
  EXPECT_THAT(ShapeError(LayerUnderTest(text + "concat_param { axis: 0 }"), {{4, 3}, {4, 3}}), HasSubstr("the rows"));
  EXPECT_THAT(ShapeError(LayerUnderTest(text + "concat_param { axis: 4 }"), {{4, 3}, {4, 3}}), HasSubstr("axis 4"));
}

TEST(Shapes, WhatIsBroadcastHasAxesOfTheBottom) {
  for (const auto& [type, message] :
       std::vector<std::pair<std::string, std::string>>{{"Scale", "scale_param"}, {"Bias", "bias_param"}}) {
    const auto layer = [&](const std::string& fields, const std::string& bottoms = "") {
      return "name: \"b\" type: \"" + type + "\" bottom: \"a\" " + bottoms + " top: \"t\" " + message + " { " + fields +
             " }";
    };
    const auto blob = [&](const std::string& fields) {
      return LayerUnderTest(layer(fields))->Params({{4, 3, 2, 5}})[0].shape;
    };
    EXPECT_EQ(blob(""), (Shape{3}));
    EXPECT_EQ(blob("axis: -2 num_axes: -1"), (Shape{2, 5}));
    EXPECT_EQ(blob("axis: 2 num_axes: 0"), (Shape{1}));
    EXPECT_EQ(ShapeError(LayerUnderTest(layer("axis: 3 num_axes: 2")), {{4, 3, 2, 5}}),
              "layer \"b\": " + message + " { axis: 3 num_axes: 2 } does not fit the bottom's shape [4 3 2 5]");
    EXPECT_EQ(CreateError(layer("num_axes: -2")),
              "layer \"b\": " + message + " { num_axes: -2 }: expected -1 (all behind axis) or more");
    EXPECT_THAT(CreateError(layer("axis: 0")), HasSubstr(message + " { axis: 0 } would learn a number for each row"));
    EXPECT_THAT(CreateError(layer("axis: 1", "bottom: \"c\"")), HasSubstr("expected axis: 0"));
    const LayerUnderTest two(layer("axis: 0", "bottom: \"c\""));
    EXPECT_EQ(two->blobs(), 0);
    EXPECT_EQ(Shapes(two, {{4, 3, 2}, {4, 3}}), (std::vector<Shape>{{4, 3, 2}}));
    EXPECT_EQ(ShapeError(two, {{4, 3, 2}, {4, 2}}),
              "layer \"b\": bottom 1 has shape [4 2]; expected [4 3], the first axes of bottom 0");
  }
  EXPECT_THAT(CreateError(R"(name: "b" type: "Bias" bottom: "a" bottom: "c" top: "t"
                             bias_param { axis: 0 filler { type: "constant" } })"),
              HasSubstr("a filler with two bottoms"));
}

TEST(Shapes, Prelu) {
  const LayerUnderTest channels(R"(name: "p" type: "PReLU" bottom: "a" top: "a")");
  EXPECT_EQ(Shapes(channels, {{4, 3, 2, 5}}), (std::vector<Shape>{{4, 3, 2, 5}}));
  const std::vector<ParamSpec> specs = channels->Params({{4, 3, 2, 5}});
  EXPECT_EQ(specs[0].shape, (Shape{3}));
  EXPECT_EQ(specs[0].filler->type(), "constant");
  EXPECT_EQ(specs[0].filler->value(), 0.25f);
  EXPECT_TRUE(channels->gradient_reads_input());
  EXPECT_TRUE(channels->has_small_blobs());
  const LayerUnderTest shared(R"(name: "p" type: "PReLU" bottom: "a" top: "a" prelu_param { channel_shared: true })");
  EXPECT_EQ(shared->Params({{4, 3, 2, 5}})[0].shape, (Shape{1}));
  EXPECT_EQ(ShapeError(channels, {{4}}), "layer \"p\": bottom shape [4] does not fit; expected [rows, channels, ...]");
}

TEST(Shapes, EltwiseAndSplit) {
  const LayerUnderTest sum(R"(name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "t")");
  EXPECT_EQ(Shapes(sum, {{4, 3}, {4, 3}}), (std::vector<Shape>{{4, 3}}));
  EXPECT_EQ(ShapeError(sum, {{4, 3}, {4, 2}}),
            "layer \"e\": bottom 1 has shape [4 2], bottom 0 [4 3]; they must be equal");
  const LayerUnderTest split(R"(name: "s" type: "Split" bottom: "a" top: "t" top: "u" top: "v")");
  EXPECT_EQ(Shapes(split, {{4, 3}}), (std::vector<Shape>(3, {4, 3})));
}

TEST(Shapes, SoftmaxRefusesTheRows) {
  const LayerUnderTest rows(R"(name: "s" type: "Softmax" bottom: "a" top: "b" softmax_param { axis: 0 })");
  EXPECT_THAT(ShapeError(rows, {{4, 3}}), HasSubstr("softmax_param { axis: 0 } does not fit bottom shape [4 3]"));
  const LayerUnderTest last(R"(name: "s" type: "Softmax" bottom: "a" top: "b" softmax_param { axis: -1 })");
  EXPECT_EQ(Shapes(last, {{4, 3, 2}}), (std::vector<Shape>{{4, 3, 2}}));
}

TEST(Shapes, CosinesHaveOneBlobOfWeights) {
  const LayerUnderTest head(R"(name: "head" type: "InnerProduct" bottom: "a" top: "b"
                               inner_product_param { num_output: 6 normalize: true bias_term: false })");
  EXPECT_EQ(Shapes(head, {{4, 3, 2, 1}}), (std::vector<Shape>{{4, 6}}));
  const std::vector<ParamSpec> params = head->Params({{4, 3, 2, 1}});
  ASSERT_EQ(params.size(), 1u);
  EXPECT_EQ(params[0].shape, (Shape{6, 6}));
  EXPECT_EQ(head->channel_use(), ChannelUse::kSplitOutput);
}

TEST(Shapes, LossAndAccuracy) {
  const std::string loss = R"(name: "l" type: "SoftmaxWithLoss" bottom: "a" bottom: "b" top: "t" )";
  const LayerUnderTest plain(loss);
  EXPECT_EQ(Shapes(plain, {{4, 10}, {4}}), (std::vector<Shape>{{1}}));
  EXPECT_EQ(Shapes(plain, {{4, 10, 1, 1}, {4, 1, 1, 1}}), (std::vector<Shape>{{1}}));
  EXPECT_TRUE(plain->reads_labels() && plain->is_statistic());
  EXPECT_FALSE(plain->needs_batch_labels());
  EXPECT_EQ(plain->loss_weight(0), 1);
  EXPECT_EQ(ShapeError(plain, {{4, 10}, {5}}),
            "layer \"l\": labels have shape [5]; expected one for each of the 4 rows of [4 10]");
  EXPECT_THAT(ShapeError(plain, {{4, 10, 2, 2}, {4, 1, 2, 2}}), HasSubstr("one label per pixel is not supported"));
  EXPECT_THAT(ShapeError(LayerUnderTest(loss + "softmax_param { axis: 2 }"), {{4, 10, 1}, {4}}), HasSubstr("axis 2"));
  const LayerUnderTest two(loss + "top: \"p\" loss_weight: 0.5 loss_weight: 0");
  EXPECT_EQ(Shapes(two, {{4, 10}, {4}}), (std::vector<Shape>{{1}, {4, 10}}));
  EXPECT_EQ(two->loss_weight(0), 0.5f);
  EXPECT_EQ(two->loss_weight(1), 0);

  const LayerUnderTest top5(
      R"(name: "a" type: "Accuracy" bottom: "a" bottom: "b" top: "t" accuracy_param { top_k: 5 })");
  EXPECT_EQ(Shapes(top5, {{4, 10}, {4}}), (std::vector<Shape>{{1}}));
  EXPECT_TRUE(top5->reads_labels() && top5->is_statistic());
  EXPECT_EQ(top5->loss_weight(0), 0);
  EXPECT_THAT(ShapeError(top5, {{4, 3}, {4}}), HasSubstr("top_k 5 is more than the 3 classes"));
}

TEST(Shapes, WhoCountsIgnoredLabelsNeedsTheBatchsLabels) {
  const auto needs = [](const std::string& loss_param) {
    const LayerUnderTest layer(R"(name: "l" type: "SoftmaxWithLoss" bottom: "a" bottom: "b" top: "t" loss_param { )" +
                               loss_param + " }");
    return layer->needs_batch_labels();
  };
  EXPECT_TRUE(needs("ignore_label: -1"));
  EXPECT_TRUE(needs("ignore_label: -1 normalize: true"));
  EXPECT_FALSE(needs("ignore_label: -1 normalize: false"));  // the old name of BATCH_SIZE
  EXPECT_FALSE(needs("ignore_label: -1 normalization: FULL"));
  EXPECT_FALSE(needs("normalization: VALID"));
  const LayerUnderTest accuracy(
      R"(name: "a" type: "Accuracy" bottom: "a" bottom: "b" top: "t" accuracy_param { ignore_label: 3 })");
  EXPECT_TRUE(accuracy->needs_batch_labels());
}

TEST(Shapes, Input) {
  const LayerUnderTest one(R"(name: "i" type: "Input" top: "a" top: "b" input_param { shape { dim: 2 dim: 3 } })");
  EXPECT_EQ(Shapes(one, {}), (std::vector<Shape>{{2, 3}, {2, 3}}));
  EXPECT_TRUE(one->is_source());
  EXPECT_EQ(one->batch_size(), 2);
}

TEST(Shapes, Data) {
  const std::string text = R"(name: "d" type: "Data" top: "x" top: "l" data_param { source: "db" batch_size: 8 } )";
  const LayerUnderTest plain(text);
  EXPECT_EQ(Shapes(plain, {{8, 3, 32, 40}}), (std::vector<Shape>{{8, 3, 32, 40}, {8}}));
  EXPECT_TRUE(plain->is_source());
  EXPECT_EQ(plain->batch_size(), 8);
  EXPECT_FALSE(plain->yields_labels(0));
  EXPECT_TRUE(plain->yields_labels(1));
  const LayerUnderTest crop(text + "transform_param { crop_size: 28 mean_value: 1 mean_value: 2 mean_value: 3 }");
  EXPECT_EQ(Shapes(crop, {{8, 3, 32, 40}}), (std::vector<Shape>{{8, 3, 28, 28}, {8}}));
  const LayerUnderTest old_place(
      R"(name: "d" type: "Data" top: "x" data_param { source: "db" batch_size: 8 crop_size: 9 })");
  EXPECT_EQ(Shapes(old_place, {{8, 3, 32, 40}}), (std::vector<Shape>{{8, 3, 9, 9}}));
  EXPECT_THAT(ShapeError(crop, {{8, 3, 20, 40}}), HasSubstr("crop_size 28 does not fit records of 20 x 40 pixels"));
  EXPECT_THAT(ShapeError(crop, {{8, 1, 32, 40}}), HasSubstr("3 mean_value entries for records of 1 channels"));
}

TEST(Shapes, InBounds) {
  EXPECT_TRUE((Shape{}).InBounds());
  EXPECT_TRUE((Shape{2147483647, 16384}).InBounds());
  EXPECT_TRUE((Shape{int64_t{1} << 30, 1 << 15}).InBounds()) << "2^45 elements";
  EXPECT_FALSE((Shape{int64_t{1} << 30, (1 << 15) + 1}).InBounds());
  EXPECT_FALSE((Shape{2147483648}).InBounds());
  EXPECT_FALSE((Shape{2147483648, 0}).InBounds()) << "no elements, but a dim that is too large";
  EXPECT_FALSE((Shape{1 << 30, 1 << 30, 16}).InBounds()) << "2^64, which is 0 in 64 bits";
  EXPECT_FALSE((Shape{4, -1}).InBounds());
}

TEST(Shapes, NumbersBeyondTheirFieldsAreRefused) {
  const std::string product = R"(name: "ip" type: "InnerProduct" bottom: "a" top: "b" inner_product_param )";
  EXPECT_EQ(CreateError(product + "{ num_output: 4294967295 }"),
            "layer \"ip\": inner_product_param { num_output: 4294967295 }: expected 1 to 2147483647");
  EXPECT_EQ(CreateError(product + "{ num_output: 2147483647 }"), "");
  EXPECT_EQ(CreateError(R"(name: "c" type: "Convolution" bottom: "a" top: "b"
                           convolution_param { num_output: 2147483648 kernel_size: 3 })"),
            "layer \"c\": convolution_param { num_output: 2147483648 }: expected 1 to 2147483647");
  const std::string data = R"(name: "d" type: "Data" top: "x" data_param { source: "db" batch_size: )";
  EXPECT_EQ(CreateError(data + "4294967295 }"),
            "layer \"d\": data_param { batch_size: 4294967295 }: expected 1 to 2147483647");
  EXPECT_EQ(CreateError(data + "0 }"), "layer \"d\": data_param { batch_size: 0 }: expected 1 to 2147483647");
  EXPECT_EQ(CreateError(R"(name: "c" type: "Concat" bottom: "a" bottom: "b" top: "t"
                           concat_param { concat_dim: 4294967295 })"),
            "layer \"c\": concat_param { concat_dim: 4294967295 }: expected an axis, 1 or more");
  EXPECT_THAT(CreateError(R"(name: "i" type: "Input" top: "a" input_param { shape { dim: 9223372036854775807 } })"),
              HasSubstr("input shape [9223372036854775807] is too large"));
}

TEST(Shapes, ProductsThatOverflowAreRefused) {
  const LayerUnderTest product(
      R"(name: "ip" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 2147483647 })");
  EXPECT_EQ(
      ShapeError(product, {{1, 1 << 15}}),
      "layer \"ip\": parameter shape [2147483647 32768] is too large; expected dims of at most 2147483647, and at "
      "most 35184372088832 elements");
  EXPECT_THAT(ShapeError(product, {{1 << 20, 4}}), HasSubstr("top shape [1048576 2147483647] is too large"));
  // [1 << 30, 16, 1 << 15, 1 << 15] has 2^64 elements, which is 0 in 64 bits.
  const LayerUnderTest window(R"(name: "c" type: "Convolution" bottom: "a" top: "b"
                                 convolution_param { num_output: 1073741824 kernel_size: 32768 pad: 20000 })");
  EXPECT_THAT(ShapeError(window, {{1, 16, 1, 1}}), HasSubstr("is too large"));
  const LayerUnderTest flat(R"(name: "f" type: "Flatten" bottom: "a" top: "b")");
  EXPECT_THAT(ShapeError(flat, {{1, 1 << 20, 1 << 12}}), HasSubstr("top shape [1 4294967296] is too large"));
  const LayerUnderTest both(R"(name: "c" type: "Concat" bottom: "a" bottom: "b" top: "t")");
  EXPECT_THAT(ShapeError(both, {{1, 2147483647}, {1, 1}}), HasSubstr("top shape [1 2147483648] is too large"));
}

}  // namespace
}  // namespace hp::test
