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
  for (const std::string type : {"Scale", "Bias"}) {
    const std::string message = type == "Scale" ? "scale_param" : "bias_param";
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
    EXPECT_THAT(ShapeError(LayerUnderTest(layer("axis: -1", "bottom: \"c\"")), {{4, 3, 2}, {2}}),
                HasSubstr("{ axis: -1 } with two bottoms is not supported"));
    EXPECT_EQ(Shapes(LayerUnderTest(layer("axis: -3", "bottom: \"c\"")), {{4, 3, 2}, {4, 3}}),
              (std::vector<Shape>{{4, 3, 2}}));
    const LayerUnderTest two(layer("axis: 0", "bottom: \"c\""));
    EXPECT_EQ(two->blobs(), 0);
    EXPECT_EQ(Shapes(two, {{4, 3, 2}, {4, 3}}), (std::vector<Shape>{{4, 3, 2}}));
    EXPECT_EQ(ShapeError(two, {{4, 3, 2}, {4, 2}}),
              "layer \"b\": bottom 1 has shape [4 2]; expected [4 3], the first axes of bottom 0");
  }
  for (const std::string type : {"Scale", "Bias"}) {
    const std::string field = type == "Scale" ? "scale_param" : "bias_param";
    EXPECT_EQ(CreateError("name: \"b\" type: \"" + type + "\" bottom: \"a\" bottom: \"c\" top: \"t\" " + field +
                          " { axis: 0 filler { type: \"constant\" } }"),
              "");
    for (const char* axes : {"num_axes: 2147483647", "axis: 2147483647", "axis: 2 num_axes: 2147483646"}) {
      const LayerUnderTest layer("name: \"b\" type: \"" + type + "\" bottom: \"a\" top: \"t\" " + field + " { " + axes +
                                 " }");
      EXPECT_THAT(ShapeError(layer, {{4, 3, 2, 5}}), HasSubstr("does not fit the bottom's shape [4 3 2 5]")) << axes;
    }
  }
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

TEST(Shapes, Slice) {
  const auto layer = [](const std::string& fields) {
    return R"(name: "s" type: "Slice" bottom: "x" top: "a" top: "b" top: "c" slice_param { )" + fields + " }";
  };
  EXPECT_EQ(Shapes(LayerUnderTest(layer("")), {{4, 6, 2}}), (std::vector<Shape>{{4, 2, 2}, {4, 2, 2}, {4, 2, 2}}));
  EXPECT_EQ(Shapes(LayerUnderTest(layer("axis: -1 slice_point: 1 slice_point: 4")), {{4, 6, 9}}),
            (std::vector<Shape>{{4, 6, 1}, {4, 6, 3}, {4, 6, 5}}));
  EXPECT_EQ(ShapeError(LayerUnderTest(layer("slice_dim: 1")), {{4, 7}}),
            "layer \"s\": axis 1 of bottom shape [4 7] is not divisible by 3 tops; expected slice_point values");
  EXPECT_EQ(ShapeError(LayerUnderTest(layer("slice_point: 1 slice_point: 7")), {{4, 7}}),
            "layer \"s\": slice_point 7 leaves nothing of axis 1 of bottom shape [4 7] for the last top");
  EXPECT_EQ(ShapeError(LayerUnderTest(layer("axis: 0")), {{4, 7}}),
            "layer \"s\": slice_param { axis: 0 } does not fit bottom shape [4 7]; expected 1 to 1 (axis 0 is the "
            "batch)");
  EXPECT_EQ(CreateError(layer("slice_point: 1")), "layer \"s\": has 1 slice_point values for 3 tops; expected 2");
  EXPECT_EQ(CreateError(layer("slice_point: 3 slice_point: 3")),
            "layer \"s\": slice_point 3 behind 3; expected each to be greater than the one before, and than 0");
  EXPECT_EQ(CreateError(layer("axis: 1 slice_dim: 1")),
            "layer \"s\": slice_param has both axis and slice_dim; give one");
  EXPECT_THAT(CreateError(layer("slice_dim: 4294967295")), HasSubstr("expected an axis, 1 or more"));
}

TEST(Shapes, Crop) {
  const auto layer = [](const std::string& fields) {
    return R"(name: "c" type: "Crop" bottom: "x" bottom: "like" top: "y" crop_param { )" + fields + " }";
  };
  EXPECT_EQ(Shapes(LayerUnderTest(layer("")), {{4, 6, 5, 5}, {1, 9, 2, 3}}), (std::vector<Shape>{{4, 6, 2, 3}}));
  EXPECT_EQ(Shapes(LayerUnderTest(layer("axis: -1 offset: 2")), {{4, 6, 5, 5}, {1, 9, 2, 3}}),
            (std::vector<Shape>{{4, 6, 5, 3}}));
  EXPECT_EQ(ShapeError(LayerUnderTest(layer("offset: 3")), {{4, 6, 5, 5}, {4, 6, 2, 3}}),
            "layer \"c\": offset 3 and size 3 of axis 3, that of bottom 1, go beyond bottom shape [4 6 5 5]");
  EXPECT_EQ(ShapeError(LayerUnderTest(layer("offset: 0 offset: 0 offset: 0")), {{4, 6, 5, 5}, {4, 6, 2, 3}}),
            "layer \"c\": has 3 offset values; expected one for each of the 2 axes from 2 on, or one for all");
  EXPECT_THAT(ShapeError(LayerUnderTest(layer("")), {{4, 6, 5, 5}, {4, 6, 2}}),
              HasSubstr("expected equally many axes"));
  EXPECT_THAT(ShapeError(LayerUnderTest(layer("axis: 0")), {{4, 6, 5, 5}, {4, 6, 2, 2}}),
              HasSubstr("axis 0 is the batch"));
}

TEST(Shapes, Tile) {
  const std::string text = R"(name: "t" type: "Tile" bottom: "x" top: "y" tile_param { tiles: )";
  EXPECT_EQ(Shapes(LayerUnderTest(text + "3 }"), {{4, 6, 5}}), (std::vector<Shape>{{4, 18, 5}}));
  EXPECT_EQ(Shapes(LayerUnderTest(text + "3 axis: -1 }"), {{4, 6, 5}}), (std::vector<Shape>{{4, 6, 15}}));
  EXPECT_EQ(CreateError(text + "0 }"), "layer \"t\": tile_param { tiles: 0 }: expected 1 or more");
  EXPECT_THAT(ShapeError(LayerUnderTest(text + "2 axis: 3 }"), {{4, 6, 5}}), HasSubstr("expected 1 to 2"));
  EXPECT_THAT(ShapeError(LayerUnderTest(text + "2147483647 }"), {{4, 1 << 20}}), HasSubstr("is too large"));
}

TEST(Shapes, Reshape) {
  const auto text = [](const std::string& fields) {
    return R"(name: "r" type: "Reshape" bottom: "x" top: "y" reshape_param { )" + fields + " }";
  };
  const auto shape = [&](const std::string& fields) { return Shapes(LayerUnderTest(text(fields)), {{4, 6, 2, 5}})[0]; };
  const auto error = [&](const std::string& fields) {
    return ShapeError(LayerUnderTest(text(fields)), {{4, 6, 2, 5}});
  };
  EXPECT_EQ(shape("shape { dim: 0 dim: -1 }"), (Shape{4, 60}));
  EXPECT_EQ(shape("shape { dim: -1 dim: 60 }"), (Shape{4, 60}));
  EXPECT_EQ(shape("shape { dim: 0 dim: 0 dim: 10 }"), (Shape{4, 6, 10}));
  EXPECT_EQ(shape("shape { dim: 3 dim: -1 } axis: 1 num_axes: 1"), (Shape{4, 3, 2, 2, 5}));
  EXPECT_EQ(shape("shape { dim: 10 } axis: -3"), (Shape{4, 6, 10}));
  EXPECT_EQ(shape("shape { dim: 1 } axis: 1 num_axes: 0"), (Shape{4, 1, 6, 2, 5}));
  EXPECT_EQ(error("shape { dim: 0 dim: 7 }"),
            "layer \"r\": reshape_param would make [4 7], of 28 elements, of bottom shape [4 6 2 5], which has 240");
  EXPECT_THAT(error("shape { dim: 0 dim: -1 dim: 7 }"), HasSubstr("which has 240"));
  // 4 would be right for these rows alone, and what others make of them is nothing that the prototxt says.
  for (const std::string first : {"4", "8", "2"}) {
    EXPECT_EQ(
        error("shape { dim: " + first + " dim: -1 }"),
        "layer \"r\": reshape_param { shape { dim: " + first +
            " } } would be axis 0, but axis 0 is the batch, of which each node has a part; expected it as it is: a "
            "first dim of 0, or axis: 1");
  }
  EXPECT_THAT(error("shape { dim: 8 dim: 54 }"), HasSubstr("a first dim of 0"));
  EXPECT_THAT(error("shape { dim: -1 dim: 6 }"), HasSubstr("would make [40 6] of bottom shape [4 6 2 5], but axis 0"));
  EXPECT_THAT(error("shape { dim: 1 } axis: 0 num_axes: 0"), HasSubstr("expected it as it is"));
  EXPECT_THAT(error("num_axes: 1"), HasSubstr("reshape_param takes axis 0 away, but axis 0 is the batch"));
  EXPECT_EQ(error("shape { dim: 0 dim: 0 dim: 0 dim: 0 dim: 0 }"),
            "layer \"r\": dim 4 of reshape_param is 0, but bottom shape [4 6 2 5] has no axis 4");
  EXPECT_THAT(error("shape { dim: 0 } axis: 5"), HasSubstr("{ axis: 5 num_axes: -1 } does not fit"));
  EXPECT_EQ(CreateError(text("shape { dim: -1 dim: -1 }")),
            "layer \"r\": reshape_param { shape } has 2 dims of -1; expected at most one");
  EXPECT_EQ(CreateError(text("shape { dim: -2 }")),
            "layer \"r\": reshape_param { shape { dim: -2 } }: expected a size, 0 (that of the bottom) or -1");
  EXPECT_THAT(CreateError(text("num_axes: -2")), HasSubstr("expected -1 (all from axis on) or more"));
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
  EXPECT_EQ(
      ShapeError(rows, {{4}}),
      "layer \"s\": softmax_param { axis: 0 } does not fit bottom shape [4]; expected one with axes behind axis 0 "
      "(axis 0 is the batch)");
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

TEST(Shapes, AProductKeepsTheAxesBeforeItsOwn) {
  const auto product = [](const std::string& fields) {
    return R"(name: "ip" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 6 )" + fields +
           "}";
  };
  const LayerUnderTest lines(product("axis: 2"));
  EXPECT_EQ(Shapes(lines, {{4, 3, 2, 5}}), (std::vector<Shape>{{4, 3, 6}}));
  EXPECT_EQ(lines->Params({{4, 3, 2, 5}})[0].shape, (Shape{6, 10}));
  EXPECT_EQ(lines->channel_use(), ChannelUse::kWhole) << "axis 1, which shards divide, is not the outputs";
  const LayerUnderTest last(product("axis: -1 transpose: true"));
  EXPECT_EQ(Shapes(last, {{4, 3, 2, 5}}), (std::vector<Shape>{{4, 3, 2, 6}}));
  EXPECT_EQ(last->Params({{4, 3, 2, 5}})[0].shape, (Shape{5, 6}));
  EXPECT_EQ(Shapes(last, {{4, 5}}), (std::vector<Shape>{{4, 6}}));
  const std::vector<ParamSpec> transposed = LayerUnderTest(product("transpose: true"))->Params({{4, 5, 2}});
  EXPECT_EQ(transposed[0].shape, (Shape{10, 6}));
  EXPECT_TRUE(transposed[0].transposed);
  EXPECT_EQ(transposed[1].shape, (Shape{6}));
  EXPECT_FALSE(transposed[1].transposed);
  for (const char* const axis : {"axis: 0", "axis: 4", "axis: -4", "axis: -5"}) {
    EXPECT_EQ(ShapeError(LayerUnderTest(product(axis)), {{4, 3, 2, 5}}),
              std::string("layer \"ip\": inner_product_param { ") + axis +
                  " } does not fit bottom shape [4 3 2 5]; expected 1 to 3 (axis 0 is the batch)");
  }
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
  EXPECT_EQ(Shapes(plain, {{4, 10, 2, 3}, {4, 1, 2, 3}}), (std::vector<Shape>{{1}}));
  EXPECT_EQ(Shapes(plain, {{4, 10, 2, 3}, {4, 2, 3}}), (std::vector<Shape>{{1}}));
  EXPECT_EQ(ShapeError(plain, {{4, 10, 2, 3}, {4}}),
            "layer \"l\": labels have shape [4]; expected one for each of the 4 rows and 6 pixels of [4 10 2 3]");
  EXPECT_THAT(ShapeError(plain, {{4, 10, 2, 3}, {4, 1, 3, 3}}), HasSubstr("labels have shape [4 1 3 3]"));
  EXPECT_THAT(ShapeError(plain, {{4, 10, 5000, 5000}, {4, 5000, 5000}}), HasSubstr("expected at most 16777216 pixels"));
  EXPECT_THAT(ShapeError(LayerUnderTest(loss + "margin_param { }"), {{4, 10, 2, 3}, {4, 2, 3}}),
              HasSubstr("margin_param with logits [4 10 2 3]; expected cosines [rows, classes]"));
  EXPECT_THAT(ShapeError(LayerUnderTest(loss + "margin_param { } softmax_param { axis: 2 }"), {{4, 5, 1}, {4, 5}}),
              HasSubstr("margin_param with logits [4 5 1]"));
  const LayerUnderTest hinge(R"(name: "h" type: "HingeLoss" bottom: "a" bottom: "b" top: "t")");
  EXPECT_THAT(ShapeError(hinge, {{4, 10, 2, 2}, {4, 1, 2, 2}}), HasSubstr("expected one for each of the 4 rows of"));
  const auto along = [&](const std::string& axis) {
    return LayerUnderTest(loss + "softmax_param { axis: " + axis + " }");
  };
  EXPECT_EQ(Shapes(along("2"), {{4, 10, 3}, {4, 10}}), (std::vector<Shape>{{1}}));
  EXPECT_EQ(Shapes(along("-1"), {{4, 2, 5, 3}, {4, 2, 5}}), (std::vector<Shape>{{1}}));
  EXPECT_EQ(along("-1")->classes({4, 2, 5, 3}), 3);
  EXPECT_TRUE(plain->class_split().has_value());
  EXPECT_FALSE(along("2")->class_split().has_value());
  EXPECT_EQ(
      ShapeError(along("2"), {{4, 10, 3}, {4, 3}}),
      "layer \"l\": labels have shape [4 3]; expected one for each of the 4 rows and 10 elements beside axis 2 of "
      "[4 10 3]");
  for (const char* const axis : {"0", "3", "-3", "-4"}) {
    EXPECT_EQ(ShapeError(along(axis), {{4, 10, 3}, {4}}), "layer \"l\": axis " + std::string(axis) +
                                                              ", of the classes, does not fit bottom shape [4 10 3]; "
                                                              "expected 1 to 2");
  }
  const LayerUnderTest two(loss + "top: \"p\" loss_weight: 0.5 loss_weight: 0");
  EXPECT_EQ(Shapes(two, {{4, 10}, {4}}), (std::vector<Shape>{{1}, {4, 10}}));
  EXPECT_EQ(two->loss_weight(0), 0.5f);
  EXPECT_EQ(two->loss_weight(1), 0);

  const LayerUnderTest top5(
      R"(name: "a" type: "Accuracy" bottom: "a" bottom: "b" top: "t" accuracy_param { top_k: 5 })");
  EXPECT_EQ(Shapes(top5, {{4, 10}, {4}}), (std::vector<Shape>{{1}}));
  EXPECT_TRUE(top5->reads_labels() && top5->is_statistic());
  EXPECT_EQ(top5->loss_weight(0), 0);
  EXPECT_EQ(Shapes(top5, {{4, 10, 7, 7}, {4, 1, 7, 7}}), (std::vector<Shape>{{1}}));
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
  const LayerUnderTest crop(text + "transform_param { crop_size: 28 mean_value: 1 mean_value: 2 mean_value: 3 }");
  EXPECT_EQ(Shapes(crop, {{8, 3, 32, 40}}), (std::vector<Shape>{{8, 3, 28, 28}, {8}}));
  const LayerUnderTest old_place(
      R"(name: "d" type: "Data" top: "x" data_param { source: "db" batch_size: 8 crop_size: 9 })");
  EXPECT_EQ(Shapes(old_place, {{8, 3, 32, 40}}), (std::vector<Shape>{{8, 3, 32, 40}})) << "as in Caffe";
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
