#include "test/unit/layers/layer_test_util.h"

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace hp::test {
namespace {

using Function = std::function<double(double)>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

enum Reads { kNothing, kInput, kOutput };

/// A layer with its function as Caffe documents it, and what its gradient is computed from.
struct Activation {
  const char* text;  ///< behind `name: "a" bottom: "x" top: "x"`
  Function function;
  Reads reads = kOutput;
};

const Activation kActivations[] = {
    {R"(type: "ReLU")", [](double x) { return std::max(x, 0.0); }},
    {R"(type: "ReLU" relu_param { negative_slope: 0.1 })",
     [](double x) { return std::max(x, 0.0) + static_cast<double>(0.1f) * std::min(x, 0.0); }},
    {R"(type: "ReLU" relu_param { negative_slope: -0.5 })", [](double x) { return x > 0 ? x : -0.5 * x; }, kInput},
    {R"(type: "Sigmoid")", Sigmoid},
    {R"(type: "TanH")", [](double x) { return std::tanh(x); }},
    {R"(type: "ELU")", [](double x) { return x > 0 ? x : std::expm1(x); }},
    {R"(type: "ELU" elu_param { alpha: 0.5 })", [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }},
    {R"(type: "ELU" elu_param { alpha: 0 })", [](double x) { return std::max(x, 0.0); }},
    {R"(type: "ELU" elu_param { alpha: -0.5 })", [](double x) { return x > 0 ? x : -0.5 * std::expm1(x); }, kInput},
    {R"(type: "AbsVal")", [](double x) { return std::fabs(x); }, kInput},
    {R"(type: "Power")", [](double x) { return x; }, kNothing},
    {R"(type: "Power" power_param { scale: 0.25 shift: -2 })", [](double x) { return 0.25 * x - 2; }, kNothing},
    {R"(type: "Power" power_param { power: 2 scale: 0.5 shift: 1 })",
     [](double x) { return (1 + 0.5 * x) * (1 + 0.5 * x); }, kInput},
    {R"(type: "Power" power_param { power: 3 scale: -0.5 })", [](double x) { return -x * x * x / 8; }, kInput},
    {R"(type: "Power" power_param { power: 0.5 scale: 0.5 shift: 4 })", [](double x) { return std::sqrt(4 + 0.5 * x); },
     kInput},
    {R"(type: "Power" power_param { power: -1 scale: 0.5 shift: 4 })", [](double x) { return 1 / (4 + 0.5 * x); },
     kInput},
    {R"(type: "Power" power_param { power: 0 shift: 3 })", [](double) { return 1.0; }, kNothing},
    {R"(type: "Power" power_param { power: 3 scale: 0 shift: 2 })", [](double) { return 8.0; }, kNothing},
    {R"(type: "Exp")", [](double x) { return std::exp(x); }},
    {R"(type: "Exp" exp_param { base: 2 scale: -0.5 shift: 1.5 })", [](double x) { return std::exp2(1.5 - 0.5 * x); }},
    {R"(type: "Exp" exp_param { scale: 0.5 shift: -1 })", [](double x) { return std::exp(0.5 * x - 1); }},
    {R"(type: "Log" log_param { shift: 8 })", [](double x) { return std::log(8 + x); }, kInput},
    {R"(type: "Log" log_param { base: 10 scale: -2 shift: 9 })", [](double x) { return std::log10(9 - 2 * x); },
     kInput},
    {R"(type: "BNLL")", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }},
    {R"(type: "Threshold")", [](double x) { return x > 0 ? 1.0 : 0.0; }, kNothing},
    {R"(type: "Threshold" threshold_param { threshold: -0.6 })", [](double x) { return x > -0.6 ? 1.0 : 0.0; },
     kNothing},
    {R"(type: "Swish")", [](double x) { return x * Sigmoid(x); }, kInput},
    {R"(type: "Swish" swish_param { beta: 2 })", [](double x) { return x * Sigmoid(2 * x); }, kInput},
    {R"(type: "Clip" clip_param { min: -0.6 max: 0.3 })", [](double x) { return std::clamp(x, -0.6, 0.3); }, kInput},
};

std::string TextOf(const Activation& activation) {
  return std::string(R"(name: "a" bottom: "x" top: "x" )") + activation.text;
}

Values Map(const Values& x, const std::function<double(double)>& function) {
  Values y;
  for (float value : x) y.push_back(static_cast<float>(function(value)));
  return y;
}

/// Near, or infinite where the reference overflows float.
void ExpectNearOrInfinite(const Values& got, const Values& want, const std::string& what) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << what;
    } else {
      ExpectNear({got[i]}, {want[i]}, 1e-5f, what);
    }
  }
}

/// In place as well, unless the gradient comes from the input. What an op says it does not read is not there.
TEST(Activation, ForwardAndGradientInEveryLayout) {
  const Shape shape = {2, 16, 3, 2};
  for (const Activation& activation : kActivations) {
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      for (bool in_place : {false, true}) {
        if (in_place && activation.reads == kInput) continue;
        SCOPED_TRACE(std::string(activation.text) + " " + Describe(desc) + (in_place ? " in place" : ""));
        LayerUnderTest layer(TextOf(activation));
        Op* op = layer.MakeOp({desc});
        EXPECT_EQ(op->outputs()[0], desc);
        EXPECT_EQ(op->backward_reads_input(), activation.reads == kInput);
        EXPECT_EQ(op->backward_reads_output(), activation.reads == kOutput);
        EXPECT_EQ(layer->gradient_reads_input(), activation.reads == kInput) << "as plans have it";
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

/// A shard computes a part of a layer, and has the bits of the whole.
TEST(Activation, SlicesHaveTheBitsOfTheWhole) {
  const Values x = RandomValues(67, 1), dy = RandomValues(67, 2);
  const auto run = [&](const Activation& activation, int64_t begin, int64_t end) {
    const auto slice = [=](const Values& values) { return Values(values.begin() + begin, values.begin() + end); };
    LayerUnderTest layer(TextOf(activation));
    const TensorDesc desc = {{1, end - begin}, 1};
    OpRunner runner(layer.MakeOp({desc}), {desc});
    runner.SetInput(0, slice(x));
    runner.SetOutputGradient(0, slice(dy));
    runner.Forward();
    const Values y = runner.Output();  // the backward pass may not find it
    runner.BackwardInput();
    return std::pair(y, runner.InputGradient());
  };
  for (const Activation& activation : kActivations) {
    SCOPED_TRACE(activation.text);
    const auto [y, dx] = run(activation, 0, 67);
    for (const auto& [begin, end] : {std::pair(0, 5), std::pair(5, 38), std::pair(38, 67)}) {
      const auto [part, gradient] = run(activation, begin, end);
      EXPECT_EQ(part, Values(y.begin() + begin, y.begin() + end));
      EXPECT_EQ(gradient, Values(dx.begin() + begin, dx.begin() + end));
    }
  }
}

/// Runs one row of values. @return outputs and gradients, for output gradients of 1.
std::pair<Values, Values> OfRow(const std::string& layer_text, const Values& x) {
  LayerUnderTest layer(R"(name: "a" bottom: "x" top: "y" )" + layer_text);
  const TensorDesc desc = {{1, static_cast<int64_t>(x.size())}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.SetInput(0, x);
  runner.SetOutputGradient(0, Values(x.size(), 1.0f));
  runner.Forward();
  const Values y = runner.Output();
  runner.BackwardInput();
  return {y, runner.InputGradient()};
}

TEST(Activation, LargeInputsSaturate) {
  const Values x = {-1e4f, -100, -20, 0, 20, 100, 1e4f};
  for (const Activation& activation : kActivations) {
    if (std::string(activation.text).find("\"Log\"") != std::string::npos) continue;
    if (std::string(activation.text).find("power: 0.5") != std::string::npos) continue;
    ExpectNearOrInfinite(OfRow(activation.text, x).first, Map(x, activation.function), activation.text);
  }
}

/// Derivatives where their factors vanish or overflow.
TEST(Activation, GradientsOfLargeInputs) {
  const Values x = {-1e4f, -100, 100, 1e4f};
  for (const char* layer : {R"(type: "BNLL")", R"(type: "ELU")", R"(type: "Swish")"}) {
    ExpectNear(OfRow(layer, x).second, {0, 0, 1, 1}, 1e-6f, layer);
  }
  ExpectNear(OfRow(R"(type: "ELU" elu_param { alpha: -1 })", x).second, {0, 0, 1, 1}, 1e-6f, "ELU");
  ExpectNear(OfRow(R"(type: "BNLL")", {-30, -10}).second, {std::exp(-30.0f), std::exp(-10.0f)}, 1e-7f, "BNLL");
}

/// Where Caffe's documentation decides.
TEST(Activation, Corners) {
  EXPECT_EQ(OfRow(R"(type: "AbsVal")", {-2, 0, 3}).second, (Values{-1, 0, 1}));
  EXPECT_EQ(OfRow(R"(type: "ReLU" relu_param { negative_slope: 0.25 })", {-2, 0, 3}).second, (Values{0.25f, 0.25f, 1}));
  EXPECT_EQ(OfRow(R"(type: "Threshold" threshold_param { threshold: 1 })", {0.5f, 1, 1.5f}).first, (Values{0, 0, 1}))
      << "above the threshold alone";
  const auto [y, dx] = OfRow(R"(type: "Clip" clip_param { min: -1 max: 2 })", {-2, -1, 0, 2, 3});
  EXPECT_EQ(y, (Values{-1, -1, 0, 2, 2}));
  EXPECT_EQ(dx, (Values{0, 1, 1, 1, 0})) << "the ends are within";
  EXPECT_EQ(OfRow(R"(type: "Clip" clip_param { min: 0.5 max: 0.5 })", {0, 0.5f, 1}).first, (Values{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(OfRow(R"(type: "Clip" clip_param { min: 0 max: inf })", {-1, 1e30f}).first, (Values{0, 1e30f}));
  EXPECT_EQ(OfRow(R"(type: "Exp" exp_param { base: 1 scale: 3 })", {-2, 0, 3}).first, (Values{1, 1, 1}));
  EXPECT_EQ(OfRow(R"(type: "Log")", {0, 1}).first, (Values{-std::numeric_limits<float>::infinity(), 0}));
}

/// A power of 0 is 1 even of 0, a scale of 0 leaves shift^power; neither has a gradient.
TEST(Activation, PowersWithoutAnInput) {
  for (const char* power : {"power: 0", "power: 0 shift: 5", "scale: 0 power: 0"}) {
    const auto [y, dx] = OfRow(std::string(R"(type: "Power" power_param { )") + power + " }", {-2, 0, 3});
    EXPECT_EQ(y, (Values{1, 1, 1})) << power;
    EXPECT_EQ(dx, (Values{0, 0, 0})) << power;
  }
  EXPECT_EQ(OfRow(R"(type: "Power" power_param { scale: 0 shift: 3 })", {-2, 0}).first, (Values{3, 3}));
  EXPECT_EQ(OfRow(R"(type: "Power" power_param { scale: 0 shift: 3 power: 2 })", {-2, 0}).first, (Values{9, 9}));
}

/// The gradient at a base of 0, which Caffe computes as 0 / 0 for most powers.
TEST(Activation, PowersOfZero) {
  EXPECT_EQ(OfRow(R"(type: "Power" power_param { power: 3 })", {0}).second, (Values{0}));
  EXPECT_EQ(OfRow(R"(type: "Power" power_param { power: 2 shift: 2 scale: 2 })", {-1}).second, (Values{0}));
  EXPECT_EQ(OfRow(R"(type: "Power" power_param { power: 3 })", {-2}), std::pair(Values{-8}, Values{12}));
  EXPECT_TRUE(std::isnan(OfRow(R"(type: "Power" power_param { power: 0.5 })", {-2}).first[0]));
}

/// A NaN has to reach the loss, which is where training is stopped. 40 elements: whole vectors and a remainder.
TEST(Activation, HandsNaNOn) {
  for (const Activation& activation : kActivations) {
    const bool constant = activation.function(1) == activation.function(-3);
    for (float y : OfRow(activation.text, Values(40, std::nanf(""))).first) {
      EXPECT_EQ(std::isnan(y), !constant) << activation.text;
    }
  }
}

/// More elements than one piece of the parallel loop.
TEST(Activation, ManyElements) {
  const TensorDesc desc = {{5, 8191}, 1};
  LayerUnderTest layer(TextOf(kActivations[0]));
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
