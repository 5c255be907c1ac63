#include "test/unit/layers/layer_test_util.h"

#include <cmath>
#include <functional>

namespace hp::test {
namespace {

struct Activation {
  const char* text;
  std::function<double(double)> function;
};

const Activation kActivations[] = {
    {R"(name: "a" type: "ReLU" bottom: "x" top: "x")", [](double x) { return std::max(x, 0.0); }},
    {R"(name: "a" type: "ReLU" bottom: "x" top: "x" relu_param { negative_slope: 0.1 })",
     [](double x) { return std::max(x, 0.0) + static_cast<double>(0.1f) * std::min(x, 0.0); }},
    {R"(name: "a" type: "Sigmoid" bottom: "x" top: "x")", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {R"(name: "a" type: "TanH" bottom: "x" top: "x")", [](double x) { return std::tanh(x); }},
};

Values Map(const Values& x, const std::function<double(double)>& function) {
  Values y;
  for (float value : x) y.push_back(static_cast<float>(function(value)));
  return y;
}

/// In place as well: the gradient comes from the output alone.
TEST(Activation, ForwardAndGradientInEveryLayout) {
  const Shape shape = {2, 16, 3, 2};
  for (const Activation& activation : kActivations) {
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      for (bool in_place : {false, true}) {
        SCOPED_TRACE(std::string(activation.text) + " " + Describe(desc) + (in_place ? " in place" : ""));
        LayerUnderTest layer(activation.text);
        Op* op = layer.MakeOp({desc});
        EXPECT_EQ(op->outputs()[0], desc);
        EXPECT_FALSE(op->backward_reads_input());
        OpRunner runner(op, {desc}, {}, in_place);
        const Values x = DistinctValues(shape.count(), 3, 0.03f);
        runner.SetInput(0, x);
        runner.Forward();
        ExpectNear(runner.Output(), Map(x, activation.function), 2e-6f, "forward");
        CheckGradients(&runner, {.step = 1e-2f, .tolerance = 2e-3f});
      }
    }
  }
}

TEST(Activation, LargeInputsSaturate) {
  const Values x = {-1e4f, -100, -20, 0, 20, 100, 1e4f};
  for (const Activation& activation : kActivations) {
    LayerUnderTest layer(activation.text);
    const TensorDesc desc = {{1, 7}, 1};
    OpRunner runner(layer.MakeOp({desc}), {desc});
    runner.SetInput(0, x);
    runner.Forward();
    ExpectNear(runner.Output(), Map(x, activation.function), 1e-6f, activation.text);
  }
}

/// A NaN has to reach the loss, which is where training is stopped. 40 elements: whole vectors and a remainder.
TEST(Activation, HandsNaNOn) {
  for (const Activation& activation : kActivations) {
    LayerUnderTest layer(activation.text);
    const TensorDesc desc = {{1, 40}, 1};
    OpRunner runner(layer.MakeOp({desc}), {desc});
    runner.SetInput(0, Values(40, std::nanf("")));
    runner.Forward();
    for (float y : runner.Output()) EXPECT_TRUE(std::isnan(y)) << activation.text;
  }
}

/// More elements than one piece of the parallel loop.
TEST(Activation, ManyElements) {
  const TensorDesc desc = {{5, 8191}, 1};
  LayerUnderTest layer(kActivations[0].text);
  OpRunner runner(layer.MakeOp({desc}), {desc});
  const Values x = RandomValues(desc.count(), 1), dy = RandomValues(desc.count(), 2);
  runner.SetInput(0, x);
  runner.SetOutputGradient(0, dy);
  runner.Forward();
  runner.BackwardInput();
  EXPECT_EQ(runner.Output(), Map(x, kActivations[0].function));
  Values dx = dy;
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
  EXPECT_EQ(runner.InputGradient(), dx);
}

}  // namespace
}  // namespace hp::test
