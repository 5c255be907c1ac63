#include "test/unit/layers/layer_test_util.h"

#include <cmath>

namespace hp::test {
namespace {

std::string EltwiseText(const std::string& parameters, size_t bottoms = 3) {
  std::string text = R"(name: "e" type: "Eltwise" top: "y" eltwise_param { )" + parameters + " }";
  for (size_t i = 0; i < bottoms; ++i) text += " bottom: \"x" + std::to_string(i) + "\"";
  return text;
}

struct Case {
  const char* parameters;
  float (*function)(float, float, float);
};

const Case kCases[] = {
    {"operation: SUM", [](float a, float b, float c) { return a + b + c; }},
    {"operation: SUM coeff: 2 coeff: -1 coeff: 0.5", [](float a, float b, float c) { return 2 * a - b + 0.5f * c; }},
    {"operation: PROD", [](float a, float b, float c) { return a * b * c; }},
    {"operation: MAX", [](float a, float b, float c) { return std::max(a, std::max(b, c)); }},
};

TEST(Eltwise, ForwardAndGradientInEveryMixOfLayouts) {
  const Shape shape = {2, 16, 2, 2};
  const Values all = DistinctValues(3 * shape.count(), 3, 0.03f);  // apart: MAX has kinks where inputs are equal
  const std::vector<Values> x = {Values(all.begin(), all.begin() + shape.count()),
                                 Values(all.begin() + shape.count(), all.begin() + 2 * shape.count()),
                                 Values(all.begin() + 2 * shape.count(), all.end())};
  for (const Case& test : kCases) {
    Values y;
    for (int64_t i = 0; i < shape.count(); ++i) y.push_back(test.function(x[0][i], x[1][i], x[2][i]));
    for (const TensorDesc& first : LayoutsOf(shape)) {
      for (const TensorDesc& other : LayoutsOf(shape)) {
        SCOPED_TRACE(std::string(test.parameters) + " " + Describe(first) + " " + Describe(other));
        LayerUnderTest layer(EltwiseText(test.parameters));
        const std::vector<TensorDesc> in = {first, other, first};
        Op* op = layer.MakeOp(in);
        EXPECT_EQ(op->outputs()[0], first);
        OpRunner runner(op, in);
        for (int i = 0; i < 3; ++i) runner.SetInput(i, x[i]);
        runner.Forward();
        ExpectNear(runner.Output(), y, 1e-6f, "forward");
        CheckGradients(&runner, {.step = 5e-3f, .samples = 8});
      }
    }
  }
}

TEST(Eltwise, OnlyWhatNeedsItsInputsBackwardKeepsThem) {
  const std::vector<TensorDesc> in(3, {{2, 3}, 1});
  EXPECT_FALSE(LayerUnderTest(EltwiseText("operation: SUM")).MakeOp(in)->backward_reads_input());
  EXPECT_TRUE(LayerUnderTest(EltwiseText("operation: PROD")).MakeOp(in)->backward_reads_input());
  EXPECT_TRUE(LayerUnderTest(EltwiseText("operation: MAX")).MakeOp(in)->backward_reads_input());
}

/// Caffe's rule for equal inputs: the second goes before the first, a third behind both.
TEST(Eltwise, OneInputTakesTheGradientOfATie) {
  LayerUnderTest layer(EltwiseText("operation: MAX"));
  const std::vector<TensorDesc> in(3, {{1, 4}, 1});
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetInput(0, {1, 1, 0, 2});
  runner.SetInput(1, {1, 0, 1, 2});
  runner.SetInput(2, {1, 1, 1, 0});
  runner.SetOutputGradient(0, {1, 2, 3, 4});
  runner.Forward();
  EXPECT_EQ(runner.Output(), (Values{1, 1, 1, 2}));
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(0), (Values{0, 2, 0, 0}));
  EXPECT_EQ(runner.InputGradient(1), (Values{1, 0, 3, 4}));
  EXPECT_EQ(runner.InputGradient(2), (Values{0, 0, 0, 0}));
}

TEST(Eltwise, NaNOfAnyInputIsHandedOn) {
  for (const Case& test : kCases) {
    for (int which = 0; which < 3; ++which) {
      LayerUnderTest layer(EltwiseText(test.parameters));
      const std::vector<TensorDesc> in(3, {{1, 1}, 1});
      OpRunner runner(layer.MakeOp(in), in);
      for (int i = 0; i < 3; ++i) runner.SetInput(i, {i == which ? std::nanf("") : 1.0f});
      runner.Forward();
      EXPECT_TRUE(std::isnan(runner.Output()[0])) << test.parameters << " " << which;
    }
  }
}

/// The gradient of a product with a zero in it.
TEST(Eltwise, ProductWithZeros) {
  LayerUnderTest layer(EltwiseText("operation: PROD", 2));
  const std::vector<TensorDesc> in(2, {{1, 2}, 1});
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetInput(0, {0, 3});
  runner.SetInput(1, {5, 0});
  runner.SetOutputGradient(0, {1, 1});
  runner.Forward();
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(0), (Values{5, 0}));
  EXPECT_EQ(runner.InputGradient(1), (Values{0, 3}));
}

}  // namespace
}  // namespace hp::test
