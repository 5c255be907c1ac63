// Embed beside a table that is looked up here, in every layout of its bottom.
#include "test/unit/layers/layer_test_util.h"

#include <cmath>

namespace hp::test {
namespace {

constexpr int64_t kTableRows = 7, kTableWidth = 21;  // of the table; several pieces of columns, the last a part of one

std::string EmbedText(bool bias) {
  return R"(name: "e" type: "Embed" bottom: "x" top: "y" embed_param { num_output: 21 input_dim: 7 bias_term: )" +
         std::string(bias ? "true" : "false") + " }";
}

struct Embedding {
  Embedding(bool bias, const TensorDesc& in)
      : layer(EmbedText(bias)),
        runner(layer.MakeOp({in}), {in},
               bias ? std::vector<Shape>{{kTableRows, kTableWidth}, {kTableWidth}}
                    : std::vector<Shape>{{kTableRows, kTableWidth}}) {
    for (int64_t i = 0; i < in.count(); ++i) indices.push_back(static_cast<float>((i * i + 2) % 6));  // never the last
    d_out = RandomValues(in.count() * kTableWidth, 4);
    runner.SetInput(0, indices);
    runner.SetParam(0, table);
    if (bias) runner.SetParam(1, of_bias);
    runner.SetOutputGradient(0, d_out);
  }
  LayerUnderTest layer;
  const Values table = RandomValues(kTableRows * kTableWidth, 1), of_bias = RandomValues(kTableWidth, 2);
  Values indices, d_out;
  OpRunner runner;
};

/// Gradients too: the sum, in the order of the elements, of those of each row's elements.
TEST(Embed, RowsOfTheTableInEveryLayout) {
  for (const bool bias : {false, true}) {
    for (const Shape& shape : {Shape{5}, Shape{5, 4}, Shape{2, 3, 2, 2}}) {
      for (const TensorDesc& in : LayoutsOf(shape)) {
        SCOPED_TRACE(Describe(in));
        Embedding embed(bias, in);
        embed.runner.Forward();
        Values want(in.count() * kTableWidth), d_table(kTableRows * kTableWidth, 0.0f), d_bias(kTableWidth, 0.0f);
        for (int64_t i = 0; i < in.count(); ++i) {
          const int64_t row = static_cast<int64_t>(embed.indices[i]);
          for (int64_t c = 0; c < kTableWidth; ++c) {
            want[i * kTableWidth + c] = embed.table[row * kTableWidth + c] + (bias ? embed.of_bias[c] : 0);
            d_table[row * kTableWidth + c] += embed.d_out[i * kTableWidth + c];
            d_bias[c] += embed.d_out[i * kTableWidth + c];
          }
        }
        EXPECT_EQ(embed.runner.Output(), want);
        embed.runner.BackwardParams();
        EXPECT_EQ(embed.runner.ParamGradient(0), d_table);
        if (bias) ExpectNear(embed.runner.ParamGradient(1), d_bias, 1e-5f, "bias");
        embed.runner.BackwardParams(true);
        for (float& value : d_table) value *= 2;
        ExpectNear(embed.runner.ParamGradient(0), d_table, 1e-5f, "twice");
      }
    }
  }
}

TEST(Embed, GradientsAgainstDifferences) {
  Embedding embed(true, {{4, 3}, 1});
  CheckGradients(&embed.runner, {.inputs = false});
}

TEST(Embed, NumbersHaveNoGradient) {
  Embedding embed(true, {{4, 3}, 1});
  EXPECT_FALSE(embed.layer->propagates());
  EXPECT_TRUE(embed.layer->has_gradient()) << "its table learns";
  embed.runner.Forward();
  embed.runner.BackwardInput();
  EXPECT_EQ(embed.runner.InputGradient(), Values(12, 0.0f));
}

/// Of its row, and the gradient of row 0: a training ends, and names the layer.
TEST(Embed, ANumberThatNamesNoRowIsNaN) {
  for (const float wrong : {-1.0f, 7.0f, 2.5f, 1e30f, NAN, -INFINITY}) {
    SCOPED_TRACE(wrong);
    Embedding embed(true, {{4, 3}, 1});
    embed.indices[5] = wrong;
    embed.runner.SetInput(0, embed.indices);
    embed.runner.Forward();
    const Values out = embed.runner.Output();
    for (int64_t i = 0; i < 12 * kTableWidth; ++i) EXPECT_EQ(std::isnan(out[i]), i / kTableWidth == 5);
    embed.runner.BackwardParams();
    const Values gradient = embed.runner.ParamGradient(0);
    for (int64_t i = 0; i < kTableRows * kTableWidth; ++i) EXPECT_EQ(std::isnan(gradient[i]), i < kTableWidth);
  }
}

TEST(Embed, ShapesAndParameters) {
  LayerUnderTest embed(EmbedText(true));
  EXPECT_EQ(embed->OutputShapes({{4, 3}}).value(), (std::vector<Shape>{{4, 3, 21}}));
  EXPECT_EQ(embed->OutputShapes({{4}}).value(), (std::vector<Shape>{{4, 21}}));
  const std::vector<ParamSpec> params = embed->Params({{4, 3}});
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[0].shape, (Shape{7, 21})) << "as Caffe's files have it";
  EXPECT_EQ(params[1].shape, (Shape{21}));
  EXPECT_EQ(LayerUnderTest(EmbedText(false))->blobs(), 1);
  EXPECT_EQ(embed->channel_use(), ChannelUse::kWhole);
  EXPECT_TRUE(embed->has_small_blobs()) << "a stage of several shards has it on one of them";
}

TEST(Embed, Refusals) {
  const auto error = [](const std::string& fields) {
    return CreateError(R"(name: "e" type: "Embed" bottom: "x" top: "y" embed_param { )" + fields + " }");
  };
  EXPECT_EQ(error("input_dim: 5"), "layer \"e\": embed_param: num_output is missing or 0; expected at least 1");
  EXPECT_EQ(
      error("num_output: 5"),
      "layer \"e\": embed_param: input_dim is missing or 0; expected at least 1, one more than the largest number "
      "of the bottom");
  EXPECT_EQ(error("num_output: 5 input_dim: 16777217"),
            "layer \"e\": embed_param { input_dim: 16777217 }: expected at most 16777216, the whole numbers that a "
            "float has");
  EXPECT_EQ(error("num_output: 5 input_dim: 4 bias_term: false bias_filler { }"), "");
  EXPECT_EQ(error("num_output: 5 input_dim: 16777216 weight_filler { type: 'xavier' }"), "");
  EXPECT_NE(error("num_output: 5 input_dim: 4 weight_filler { type: 'xavir' }"), "");
}

}  // namespace
}  // namespace hp::test
