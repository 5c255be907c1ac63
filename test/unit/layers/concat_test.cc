#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

/// What lies at each place of the output, from indices alone: the inputs' dense values side by side along `axis`.
Values Reference(const std::vector<Shape>& shapes, const std::vector<Values>& x, int axis) {
  Values y;
  const int64_t outer = shapes[0].count(0, axis);
  for (int64_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t length = shapes[i].count(axis);
      y.insert(y.end(), x[i].begin() + o * length, x[i].begin() + (o + 1) * length);
    }
  }
  return y;
}

std::string ConcatText(int axis, size_t bottoms) {
  std::string text = R"(name: "c" type: "Concat" top: "y" concat_param { axis: )" + std::to_string(axis) + " }";
  for (size_t i = 0; i < bottoms; ++i) text += " bottom: \"x" + std::to_string(i) + "\"";
  return text;
}

void CheckConcat(int axis, const std::vector<TensorDesc>& in) {
  std::string trace = "axis " + std::to_string(axis);
  for (const TensorDesc& desc : in) trace += " " + Describe(desc);
  SCOPED_TRACE(trace);
  LayerUnderTest layer(ConcatText(axis, in.size()));
  OpRunner runner(layer.MakeOp(in), in);
  std::vector<Shape> shapes;
  std::vector<Values> x, dx;
  for (const TensorDesc& desc : in) {
    const uint32_t seed = static_cast<uint32_t>(x.size());
    shapes.push_back(desc.shape);
    x.push_back(RandomValues(desc.count(), 10 + seed));
    dx.push_back(RandomValues(desc.count(), 20 + seed));
    runner.SetInput(static_cast<int>(seed), x.back());
  }
  runner.SetOutputGradient(0, Reference(shapes, dx, axis));
  runner.Forward();
  EXPECT_EQ(runner.Output(), Reference(shapes, x, axis));
  runner.BackwardInput();
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(runner.InputGradient(static_cast<int>(i)), dx[i]);
  CheckGradients(&runner, {.samples = 5});
}

TEST(Concat, ChannelsInEveryMixOfLayouts) {
  for (const TensorDesc& a : LayoutsOf({2, 16, 3, 2})) {
    for (const TensorDesc& b : LayoutsOf({2, 32, 3, 2})) {
      CheckConcat(1, {a, b});
      CheckConcat(1, {b, a, a});
    }
    for (const TensorDesc& b : LayoutsOf({2, 5, 3, 2})) CheckConcat(1, {b, a});
  }
}

TEST(Concat, OtherAxesInEveryMixOfLayouts) {
  for (const TensorDesc& a : LayoutsOf({2, 16, 3, 2})) {
    for (const TensorDesc& b : LayoutsOf({2, 16, 5, 2})) CheckConcat(2, {a, b});
    for (const TensorDesc& b : LayoutsOf({2, 16, 3, 4})) CheckConcat(3, {a, b});
  }
}

TEST(Concat, Matrices) {
  CheckConcat(1, {{{3, 4}, 1}, {{3, 7}, 1}, {{3, 1}, 1}});
  CheckConcat(1, {{{3, 4}, 1}});
  CheckConcat(1, {{{3, 16, 1, 1}, 16}, {{3, 8, 1, 1}, 8}});
}

TEST(Concat, KeepsTheInputsLayoutWhereItFits) {
  const auto block = [](const std::vector<TensorDesc>& in) {
    LayerUnderTest layer(ConcatText(1, in.size()));
    return layer.MakeOp(in)->outputs()[0].channel_block;
  };
  const bool blocks = UnderTest().blocked_layouts;
  if (blocks) {
    EXPECT_EQ(block({{{2, 16, 3, 3}, 16}, {{2, 32, 3, 3}, 16}}), 16);
    EXPECT_EQ(block({{{2, 16, 3, 3}, 8}, {{2, 32, 3, 3}, 8}}), 8);
  }
  EXPECT_EQ(block({{{2, 16, 3, 3}, 16}, {{2, 16, 3, 3}, 16}}), blocks ? 16 : 32);
  EXPECT_EQ(block({{{2, 8, 3, 3}, 8}, {{2, 8, 3, 3}, 8}, {{2, 8, 3, 3}, 8}}), blocks ? 8 : 24);
  EXPECT_EQ(block({{{2, 20, 3, 3}, 20}, {{2, 32, 3, 3}, 32}}), 52);
  EXPECT_EQ(block({{{2, 20, 3, 3}, 20}, {{2, 20, 3, 3}, 20}}), 40);
  EXPECT_EQ(block({{{2, 20, 3, 3}, 1}, {{2, 32, 3, 3}, blocks ? 16 : 32}}), 1);
  EXPECT_EQ(block({{{2, 1, 3, 3}, 1}, {{2, 1, 3, 3}, 1}}), 1);
}

TEST(Concat, GradientNobodyWantsIsNotWritten) {
  LayerUnderTest layer(ConcatText(1, 2));
  const std::vector<TensorDesc> in = {{{2, 3}, 1}, {{2, 2}, 1}};
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetOutputGradient(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  runner.SkipInputGradient(0);
  runner.Forward();
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(1), (Values{4, 5, 9, 10}));
}

}  // namespace
}  // namespace hp::test
