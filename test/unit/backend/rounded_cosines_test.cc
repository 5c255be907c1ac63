// Cosines with factors in bfloat16 beside their formulas in double with the same factors rounded.
#include "backend/cpu/rounded_cosines.h"

#include "test/support/elements.h"
#include "test/unit/backend/product_test_util.h"

#include <numeric>

namespace hp::test {
namespace {

using Doubles = std::vector<double>;

constexpr double kLeastNorm = CosineProductDesc::kLeastNorm;

double RoundedFactor(double value) { return Rounded(ElementType::kBFloat16, static_cast<float>(value)); }

double Dot(const Doubles& a, const Doubles& b, int64_t row_a, int64_t row_b, int64_t width) {
  return std::inner_product(a.begin() + row_a * width, a.begin() + (row_a + 1) * width, b.begin() + row_b * width, 0.0);
}

/// What the op is to yield, with the roundings that its header names and no others.
struct RoundedReference {
  Values y, dx, dw;
  RoundedReference(const Doubles& x, const Doubles& w, const Values& dy, int64_t rows, int64_t outputs) {
    const int64_t width = std::ssize(x) / rows;
    Doubles unit = x, rounded_unit, rounded_w, norms_x, norms_w;
    for (int64_t n = 0; n < rows; ++n) {
      norms_x.push_back(std::max(std::sqrt(Dot(x, x, n, n, width)), kLeastNorm));
      for (int64_t i = 0; i < width; ++i) unit[n * width + i] /= norms_x[n];
    }
    for (double value : unit) rounded_unit.push_back(RoundedFactor(value));
    for (double value : w) rounded_w.push_back(RoundedFactor(value));
    for (int64_t o = 0; o < outputs; ++o) norms_w.push_back(std::max(std::sqrt(Dot(w, w, o, o, width)), kLeastNorm));
    Doubles h(x.size()), g(w.size());
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t o = 0; o < outputs; ++o) {
        y.push_back(static_cast<float>(Dot(rounded_unit, rounded_w, n, o, width) / norms_w[o]));
        const double to_x = RoundedFactor(dy[n * outputs + o] / norms_w[o]);
        const double to_w = RoundedFactor(dy[n * outputs + o]);
        for (int64_t i = 0; i < width; ++i) {
          h[n * width + i] += to_x * rounded_w[o * width + i];
          g[o * width + i] += to_w * rounded_unit[n * width + i];
        }
      }
    }
    for (int64_t n = 0; n < rows; ++n) {
      const double along = Dot(h, unit, n, n, width);
      for (int64_t i = n * width; i < (n + 1) * width; ++i) {
        dx.push_back(static_cast<float>((h[i] - along * unit[i]) / norms_x[n]));
      }
    }
    for (int64_t o = 0; o < outputs; ++o) {
      const double along = Dot(g, w, o, o, width) / (norms_w[o] * norms_w[o]);
      for (int64_t i = o * width; i < (o + 1) * width; ++i) {
        dw.push_back(static_cast<float>((g[i] - along * w[i]) / norms_w[o]));
      }
    }
  }
};

class RoundedCosinesTest : public testing::TestWithParam<ProductCase> {
 protected:
  void SetUp() override {
    if (!CpuMultipliesBFloat16()) GTEST_SKIP() << "no AVX512_BF16 or AMX here";
    const ProductCase& c = GetParam();
    op_ = MakeRoundedCosines({.num_output = c.num_output}, c.in).value();
    if (op_ == nullptr) GTEST_SKIP() << "oneDNN has no kernel for it here";
    ASSERT_EQ(op_->outputs()[0], (TensorDesc{Shape{c.rows(), c.num_output}, 1}));
    runner_.emplace(op_.get(), c.in, std::vector<Shape>{{c.num_output, c.columns()}});
    for (size_t i = 0; i < c.in.size(); ++i) {
      Values values = RandomValues(c.in[i].count(), static_cast<uint32_t>(i), -2, 2);
      for (float& value : values) value = Rounded(c.in[i].element, value);
      runner_->SetInput(static_cast<int>(i), values);
    }
    runner_->SetParam(0, RandomValues(c.num_output * c.columns(), 20));
    runner_->SetOutputGradient(0, RandomValues(c.rows() * c.num_output, 22));
  }

  std::unique_ptr<Op> op_;
  std::optional<OpRunner> runner_;
};

TEST_P(RoundedCosinesTest, IsItsFormula) {
  const ProductCase& c = GetParam();
  const Values x = c.SideBySide([this](int i) { return runner_->input(i); }), w = runner_->Param(0);
  const RoundedReference want({x.begin(), x.end()}, {w.begin(), w.end()}, RandomValues(c.rows() * c.num_output, 22),
                              c.rows(), c.num_output);
  // A factor that is a digit off in float32 may be rounded to the next bfloat16: then one product of many is off by its
  // 256th part.
  runner_->Forward();
  ExpectNear(runner_->Output(), want.y, 1e-3f, "output");
  runner_->BackwardInput();
  ExpectNear(c.SideBySide([this](int i) { return runner_->InputGradient(i); }), want.dx, 2e-3f, "input's gradient");
  runner_->BackwardParams();
  ExpectNear(runner_->ParamGradient(0), want.dw, 2e-3f, "weights' gradient");
  EXPECT_EQ(runner_->packed_bytes(), op_->packed_bytes());
}

TEST_P(RoundedCosinesTest, IsNearTheCosinesInFloat32) {
  const ProductCase& c = GetParam();
  std::vector<TensorDesc> floats = c.in;
  for (TensorDesc& input : floats) input.element = ElementType::kFloat32;
  const auto plain = MakeCpuBackend()->CosineProduct({.num_output = c.num_output}, floats).value();
  OpRunner runner(plain.get(), floats, {{c.num_output, c.columns()}});
  for (int i = 0; i < runner.inputs(); ++i) runner.SetInput(i, runner_->input(i));
  runner.SetParam(0, runner_->Param(0));
  runner.SetOutputGradient(0, RandomValues(c.rows() * c.num_output, 22));
  const auto results = [](OpRunner* of) {
    of->Forward();
    const Values output = of->Output();
    of->BackwardInput();
    of->BackwardParams();
    return std::vector<Values>{output, of->InputGradient(), of->ParamGradient(0)};
  };
  const std::vector<Values> got = results(&*runner_), want = results(&runner);
  for (size_t i = 0; i < got.size(); ++i) {
    float largest = 0;
    for (float value : want[i]) largest = std::max(largest, std::fabs(value));
    ExpectNear(got[i], want[i], 0.02f * largest + 1e-6f, "result " + std::to_string(i));
  }
}

TEST_P(RoundedCosinesTest, PiecesOfRowsMakeTheWholeGradientBitForBit) {
  const ProductCase& c = GetParam();
  Values want = WholeGradient(&*runner_);
  for (int64_t step : {int64_t{1}, int64_t{6}, op_->piece_rows(), c.num_output}) {
    EXPECT_EQ(GradientInPieces(&*runner_, c, step, false), want) << step;
  }
  for (float& value : want) value += 1;
  EXPECT_EQ(GradientInPieces(&*runner_, c, 3, true), want) << "added rows";
}

TEST_P(RoundedCosinesTest, RowsOfZerosAndNaNs) {
  const ProductCase& c = GetParam();
  Values weights = runner_->Param(0);
  std::fill_n(weights.begin(), c.columns(), 0.0f);
  weights.back() = std::nanf("");
  runner_->SetParam(0, weights);
  runner_->Forward();
  EXPECT_TRUE(c.num_output == 1 || runner_->Output()[0] == 0);
  EXPECT_TRUE(std::isnan(runner_->Output().back()));
  runner_->BackwardParams();
  EXPECT_TRUE(std::isnan(runner_->ParamGradient(0).back()));
  EXPECT_TRUE(c.num_output == 1 || std::isfinite(runner_->ParamGradient(0)[0]));
}

/// An update changes rows and writes them into the copies, norms among them.
TEST_P(RoundedCosinesTest, CopiesThatAnUpdateWroteAreThoseOfTheValues) {
  const ProductCase& c = GetParam();
  const auto call = [this] {
    runner_->Call([this](const OpArgs& args) {
      op_->Forward(args);
      op_->BackwardInput(args);
    });
    return std::vector<Values>{runner_->Output(), runner_->InputGradient()};
  };
  call();
  const Values changed = RandomValues(c.num_output * c.columns(), 30);
  runner_->SetParam(0, changed);
  runner_->Call([&](const OpArgs& args) {
    args.params[0].packed->RefillRows(0, c.num_output);
    args.params[0].packed->MarkRefilled(args.params[0].version);
    // Were they filled once more, they would be filled from these.
    std::fill_n(const_cast<float*>(args.params[0].data), changed.size(), std::nanf(""));
  });
  const std::vector<Values> got = call();
  runner_->SetParam(0, changed);
  EXPECT_EQ(got, call());
}

const ProductCase kCosineCases[] = {
    {"plain", {{{5, 12}, 1}}, 7},
    {"one output", {{{1, 5}, 1}}, 1},
    {"whole blocks", {{{32, 128}, 1}}, 64},
    {"more than a block", {{{33, 200}, 1}}, 97},
    {"images of bfloat16, NHWC", {{{6, 5, 3, 2}, 5, ElementType::kBFloat16}}, 20},
    {"blocks of both types", {{{5, 70}, 1}, {{5, 16, 2, 2}, 16, ElementType::kBFloat16}}, 50},
    {"more outputs than a chunk", {{{3, 16}, 1}}, 17000},
    {"more outputs than a strip", {{{2100, 8}, 1}}, 2100},
};
INSTANTIATE_TEST_SUITE_P(Cases, RoundedCosinesTest, testing::ValuesIn(kCosineCases), NameOf);

}  // namespace
}  // namespace hp::test
