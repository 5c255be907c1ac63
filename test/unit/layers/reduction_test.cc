// Reduction, ArgMax and MVN beside sums written out here.
#include "test/unit/layers/layer_test_util.h"

#include <cmath>
#include <functional>

namespace hp::test {
namespace {

struct ReductionCase {
  const char* operation;
  std::function<double(double)> term;
  bool mean = false;
};

const ReductionCase kReductions[] = {
    {"SUM", [](double x) { return x; }},
    {"ASUM", [](double x) { return std::fabs(x); }},
    {"SUMSQ", [](double x) { return x * x; }},
    {"MEAN", [](double x) { return x; }, true},
};

TEST(Reduction, OverTheLastAxesInEveryLayout) {
  for (const ReductionCase& c : kReductions) {
    for (const int axis : {1, 2, -1}) {
      for (const TensorDesc& in : LayoutsOf({2, 16, 3, 5})) {
        SCOPED_TRACE(std::string(c.operation) + " from axis " + std::to_string(axis) + " " + Describe(in));
        LayerUnderTest layer(std::string(R"(name: "r" type: "Reduction" bottom: "x" top: "y" reduction_param { coeff:
                                            -0.5 operation: )") +
                             c.operation + " axis: " + std::to_string(axis) + " }");
        OpRunner runner(layer.MakeOp({in}), {in});
        const Values x = DistinctValues(in.count(), 1, 0.03f);
        runner.SetInput(0, x);
        runner.Forward();
        const int64_t rows = in.shape.count(0, in.shape.CanonicalAxis(axis)), width = in.count() / rows;
        Values want(rows);
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < width; ++i) sum += c.term(x[row * width + i]);
          want[row] = static_cast<float>(-0.5 * sum / (c.mean ? static_cast<double>(width) : 1));
        }
        ExpectNear(runner.Output(), want, 1e-5f, "sums");
        CheckGradients(&runner, {.tolerance = 1e-2f, .samples = 12});
      }
    }
  }
}

TEST(Reduction, LongRows) {
  LayerUnderTest layer(R"(name: "r" type: "Reduction" bottom: "x" top: "y" reduction_param { axis: 1 })");
  const std::vector<TensorDesc> in = {{{3, 70'000}, 1}};
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetInput(0, Values(3 * 70'000, 0.5f));
  runner.SetOutputGradient(0, {1, 2, 3});
  runner.Forward();
  EXPECT_EQ(runner.Output(), Values(3, 35'000.0f));
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient()[70'001], 2);
}

std::string ArgMaxText(const std::string& fields) {
  return R"(name: "a" type: "ArgMax" bottom: "x" top: "y" argmax_param { )" + fields + " }";
}

Values ArgMaxOf(const std::string& fields, const TensorDesc& in, const Values& x) {
  LayerUnderTest layer(ArgMaxText(fields));
  OpRunner runner(layer.MakeOp({in}), {in});
  runner.SetInput(0, x);
  runner.Forward();
  const Values y = runner.Output();
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(), Values(in.count(), 0.0f));
  return y;
}

TEST(ArgMax, RanksARow) {
  const TensorDesc in = {{2, 2, 2}, 1};
  const Values x = {3, -1, 7, 2, 0, 0, -5, 0};
  EXPECT_EQ(ArgMaxOf("", in, x), (Values{2, 3}));  // of equal ones the last
  EXPECT_EQ(ArgMaxOf("top_k: 3", in, x), (Values{2, 0, 3, 3, 1, 0}));
  EXPECT_EQ(ArgMaxOf("top_k: 2 out_max_val: true", in, x), (Values{2, 0, 7, 3, 3, 1, 0, 0}));
  EXPECT_EQ(ArgMaxOf("", in, {3, NAN, 7, 2, INFINITY, 0, NAN, NAN}), (Values{1, 3}));
}

TEST(ArgMax, AlongAnAxisInEveryLayout) {
  for (const TensorDesc& in : LayoutsOf({2, 8, 3, 2})) {
    SCOPED_TRACE(Describe(in));
    const Values x = DistinctValues(in.count(), 5);
    const Values places = ArgMaxOf("axis: 1 top_k: 8", in, x),
                 values = ArgMaxOf("axis: 1 top_k: 8 out_max_val: true", in, x);
    for (int64_t i = 0; i < in.count(); ++i) {
      const int64_t row = i / 48, pixel = i % 6, rank = i / 6 % 8;
      EXPECT_EQ(values[i], x[row * 48 + static_cast<int64_t>(places[i]) * 6 + pixel]);
      if (rank > 0) {
        EXPECT_LT(values[i], values[i - 6]);
      }
    }
  }
}

TEST(ArgMax, Shapes) {
  const auto shape = [](const std::string& fields, const Shape& in) {
    return LayerUnderTest(ArgMaxText(fields))->OutputShapes({in}).value()[0];
  };
  EXPECT_EQ(shape("top_k: 3", {4, 10}), (Shape{4, 1, 3}));
  EXPECT_EQ(shape("top_k: 3 out_max_val: true", {4, 10, 2, 2}), (Shape{4, 2, 3, 1}));
  EXPECT_EQ(shape("top_k: 3 axis: -2", {4, 10, 5, 2}), (Shape{4, 10, 3, 2}));
  const auto error = [](const std::string& fields) {
    return LayerUnderTest(ArgMaxText(fields))->OutputShapes({{4, 10, 2}}).status().message();
  };
  EXPECT_EQ(error("top_k: 3 axis: 2"),
            "layer \"a\": argmax_param { top_k: 3 } is more than the 2 elements to choose from in [4 10 2]");
  EXPECT_EQ(error("axis: 0"),
            "layer \"a\": argmax_param { axis: 0 } does not fit bottom shape [4 10 2]; expected 1 to 2 (axis 0 is "
            "the batch)");
  EXPECT_EQ(CreateError(ArgMaxText("top_k: 0")), "layer \"a\": argmax_param { top_k: 0 }: expected 1 or more");
  EXPECT_FALSE(LayerUnderTest(ArgMaxText(""))->has_gradient());
}

/// A micro-batch's share of a sum over a batch of 3 rows: one number, with a weight in the objective.
TEST(Reduction, OverABatch) {
  for (const ReductionCase& c : kReductions) {
    for (const TensorDesc& in : LayoutsOf({2, 16, 1, 2})) {
      SCOPED_TRACE(std::string(c.operation) + " " + Describe(in));
      LayerUnderTest layer(std::string(R"(name: "r" type: "Reduction" bottom: "x" top: "y" loss_weight: 0.3
                                          reduction_param { coeff: -0.5 operation: )") +
                           c.operation + " }");
      EXPECT_TRUE(layer->is_statistic());
      OpRunner runner(layer.MakeOp({in}), {in});
      runner.batch().global_rows = 3;
      const Values x = DistinctValues(in.count(), 1, 0.03f);
      runner.SetInput(0, x);
      runner.Forward();
      double sum = 0;
      for (const float value : x) sum += c.term(value);
      const double want = -0.5 * sum / (c.mean ? 3 * 16 * 2 : 1);
      EXPECT_NEAR(runner.Output()[0], want, 1e-5 * (1 + std::fabs(want)));
      runner.BackwardInput();
      CheckAgainstDifferences(&runner, {{layer->loss_weight(0)}}, x, runner.InputGradient(),
                              {.step = 1e-2f, .tolerance = 1e-2f, .samples = 12}, "x",
                              [&](const Values& values) { runner.SetInput(0, values); });
    }
  }
}

TEST(Reduction, RefusesAxesThatAreNotThere) {
  const auto error = [](const std::string& fields) {
    return LayerUnderTest(R"(name: "r" type: "Reduction" bottom: "x" top: "y" reduction_param { )" + fields + " }")
        ->OutputShapes({{4, 10, 2}})
        .status()
        .message();
  };
  EXPECT_EQ(error("axis: 3"),
            "layer \"r\": reduction_param { axis: 3 } does not fit bottom shape [4 10 2]; expected 0 to 2");
  EXPECT_EQ(error("axis: -3"),
            "layer \"r\": reduction_param { axis: -3 } is axis 0 of bottom shape [4 10 2]; expected axis: 0")
      << "the batch by another name, which not every shape has there";
  EXPECT_EQ(CreateError(R"(name: "r" type: "Reduction" bottom: "x" top: "y" reduction_param { coeff: inf })"),
            "layer \"r\": reduction_param { coeff: inf }: expected a finite number");
}

/// @param groups of numbers with a mean of their own, neighbours in dense order.
void CheckMvn(const std::string& fields, const TensorDesc& in, int64_t groups, bool variance, double eps) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(fields + " " + Describe(in) + (in_place ? " in place" : ""));
    LayerUnderTest layer(R"(name: "m" type: "MVN" bottom: "x" top: "y" mvn_param { )" + fields + " }");
    OpRunner runner(layer.MakeOp({in}), {in}, {}, in_place);
    const Values x = RandomValues(in.count(), 1, -1, 3);
    runner.SetInput(0, x);
    runner.Forward();
    Values want(x.size());
    const int64_t size = in.count() / groups;
    for (int64_t g = 0; g < groups; ++g) {
      double mean = 0, square = 0;
      for (int64_t i = g * size; i < (g + 1) * size; ++i) mean += x[i] / static_cast<double>(size);
      for (int64_t i = g * size; i < (g + 1) * size; ++i) square += (x[i] - mean) * (x[i] - mean);
      const double divisor = variance ? std::sqrt(square / static_cast<double>(size)) + eps : 1;
      for (int64_t i = g * size; i < (g + 1) * size; ++i) want[i] = static_cast<float>((x[i] - mean) / divisor);
    }
    ExpectNear(runner.Output(), want, 1e-5f, "normalised");
    CheckGradients(&runner, {.tolerance = 1e-2f, .samples = 16});
  }
}

TEST(Mvn, EveryLayout) {
  for (const TensorDesc& in : LayoutsOf({2, 16, 5, 7})) {
    CheckMvn("eps: 0.25", in, 32, true, 0.25);
    CheckMvn("", in, 32, true, 1e-9);
    CheckMvn("normalize_variance: false", in, 32, false, 0);
    CheckMvn("across_channels: true eps: 0.25", in, 2, true, 0.25);
    CheckMvn("across_channels: true normalize_variance: false", in, 2, false, 0);
  }
  CheckMvn("across_channels: true", {{3, 40}, 1}, 3, true, 1e-9);
}

TEST(Mvn, ConstantsBecomeZero) {
  LayerUnderTest layer(R"(name: "m" type: "MVN" bottom: "x" top: "y")");
  const std::vector<TensorDesc> in = {{{1, 1, 2, 2}, 1}};
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetInput(0, Values(4, 2.0f));
  runner.SetOutputGradient(0, Values(4, 1.0f));
  runner.Forward();
  EXPECT_EQ(runner.Output(), Values(4, 0.0f));
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(), Values(4, 0.0f));
}

TEST(Mvn, Refusals) {
  EXPECT_EQ(CreateError(R"(name: "m" type: "MVN" bottom: "x" top: "y" mvn_param { eps: -1 })"),
            "layer \"m\": mvn_param { eps: -1 }: expected a finite number of at least 0");
  LayerUnderTest layer(R"(name: "m" type: "MVN" bottom: "x" top: "y")");
  EXPECT_EQ(layer->OutputShapes({{4}}).status().message(),
            "layer \"m\": bottom shape [4] does not fit; expected [rows, channels, ...]");
}

}  // namespace
}  // namespace hp::test
