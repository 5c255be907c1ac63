// Cosines beside their formulas in double, and beside central differences.
#include "test/unit/backend/product_test_util.h"

namespace hp::test {
namespace {

using Doubles = std::vector<double>;

/// Rows [count, width] over their norms, and the norms.
struct Normalised {
  Normalised(const Doubles& rows, int64_t count) : of(rows), norms(count) {
    const int64_t width = std::ssize(rows) / count;
    for (int64_t row = 0; row < count; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += rows[row * width + i] * rows[row * width + i];
      norms[row] = std::max(std::sqrt(sum), 1e-12);
      for (int64_t i = 0; i < width; ++i) of[row * width + i] /= norms[row];
    }
  }
  /// The gradient of `row` of what was given, from that of the same row of `of`.
  Values Back(int64_t row, const Doubles& gradient) const {
    const int64_t width = std::ssize(gradient);
    double along = 0;
    for (int64_t i = 0; i < width; ++i) along += gradient[i] * of[row * width + i];
    Values back;
    for (int64_t i = 0; i < width; ++i) {
      back.push_back(static_cast<float>((gradient[i] - along * of[row * width + i]) / norms[row]));
    }
    return back;
  }
  Doubles of, norms;
};

/// What a product is to yield.
struct Reference {
  Values y, dx, dw;
  Reference(const Doubles& x, const Doubles& w, const Values& dy, int64_t rows, int64_t outputs) {
    const Normalised features(x, rows), weights(w, outputs);
    const int64_t columns = std::ssize(x) / rows;
    Doubles h(x.size()), g(w.size());
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t o = 0; o < outputs; ++o) {
        double cosine = 0;
        for (int64_t i = 0; i < columns; ++i) {
          cosine += features.of[n * columns + i] * weights.of[o * columns + i];
          h[n * columns + i] += dy[n * outputs + o] * weights.of[o * columns + i];
          g[o * columns + i] += dy[n * outputs + o] * features.of[n * columns + i];
        }
        y.push_back(static_cast<float>(cosine));
      }
    }
    const auto append = [columns](const Normalised& through, const Doubles& gradient, int64_t row, Values* to) {
      const auto begin = gradient.begin() + row * columns;
      const Values back = through.Back(row, Doubles(begin, begin + columns));
      to->insert(to->end(), back.begin(), back.end());
    };
    for (int64_t n = 0; n < rows; ++n) append(features, h, n, &dx);
    for (int64_t o = 0; o < outputs; ++o) append(weights, g, o, &dw);
  }
};

class CosineProductTest : public testing::TestWithParam<ProductCase> {
 protected:
  void SetUp() override { Make(GetParam()); }

  void Make(const ProductCase& c) {
    auto op = UnderTest().backend->CosineProduct({.num_output = c.num_output}, c.Supported());
    ASSERT_TRUE(op.ok()) << op.status();
    op_ = std::move(op).value();
    ASSERT_EQ(op_->outputs()[0], (TensorDesc{Shape{c.rows(), c.num_output}, 1}));
    runner_.emplace(op_.get(), c.Supported(), std::vector<Shape>{{c.num_output, c.columns()}});
    for (size_t i = 0; i < c.in.size(); ++i) {
      runner_->SetInput(static_cast<int>(i), RandomValues(c.in[i].count(), static_cast<uint32_t>(i), -2, 2));
    }
    runner_->SetParam(0, RandomValues(c.num_output * c.columns(), 20));
    runner_->SetOutputGradient(0, RandomValues(c.rows() * c.num_output, 22));
  }

  Reference Wanted() const {
    const ProductCase& c = GetParam();
    const Values x = c.SideBySide([this](int i) { return runner_->input(i); }), w = runner_->Param(0);
    return {Doubles(x.begin(), x.end()), Doubles(w.begin(), w.end()), RandomValues(c.rows() * c.num_output, 22),
            c.rows(), c.num_output};
  }
  void ExpectWanted() {
    const Reference want = Wanted();
    runner_->Forward();
    ExpectNear(runner_->Output(), want.y, 1e-6f, "output");
    runner_->BackwardInput();
    ExpectGradient(GetParam().SideBySide([this](int i) { return runner_->InputGradient(i); }), want.dx,
                   "input's gradient");
    runner_->BackwardParams();
    ExpectGradient(runner_->ParamGradient(0), want.dw, "weights' gradient");
  }
  /// Relative to the largest value: of rows of zeros they are sums times 1e12.
  static void ExpectGradient(Values got, Values want, const std::string& what) {
    float largest = 1;
    for (float value : want) largest = std::max(largest, std::fabs(value));
    for (Values* values : {&got, &want}) {
      for (float& value : *values) value /= largest;
    }
    ExpectNear(got, want, 2e-6f, what);
  }

  std::unique_ptr<Op> op_;
  std::optional<OpRunner> runner_;
};

TEST_P(CosineProductTest, IsItsFormula) { ExpectWanted(); }

TEST_P(CosineProductTest, GradientsMatchCentralDifferences) { CheckGradients(&*runner_, {.step = 4e-3f}); }

/// They count as of norm 1e-12: cosines of 0, and gradients that are large but numbers.
TEST_P(CosineProductTest, RowsOfZeros) {
  const ProductCase& c = GetParam();
  for (size_t i = 0; i < c.in.size(); ++i) {
    Values x = runner_->input(static_cast<int>(i));
    std::fill_n(x.begin(), c.in[i].shape.count(1), 0.0f);
    runner_->SetInput(static_cast<int>(i), x);
  }
  Values weights = runner_->Param(0);
  std::fill_n(weights.end() - c.columns(), c.columns(), 0.0f);
  runner_->SetParam(0, weights);
  runner_->Forward();
  for (int64_t o = 0; o < c.num_output; ++o) EXPECT_EQ(runner_->Output()[o], 0);
  ExpectWanted();
}

TEST_P(CosineProductTest, NaNIsHandedOn) {
  Values weights = runner_->Param(0);
  weights[0] = std::nanf("");
  runner_->SetParam(0, weights);
  runner_->Forward();
  EXPECT_TRUE(std::isnan(runner_->Output()[0]));
}

TEST_P(CosineProductTest, AccumulatedGradientsAreSums) {
  runner_->Forward();
  runner_->BackwardParams();
  Values twice = runner_->ParamGradient(0);
  for (float& value : twice) value *= 2;
  runner_->BackwardParams(/*accumulate=*/true);
  ExpectNear(runner_->ParamGradient(0), twice, 1e-6f, "twice the gradient");
}

TEST_P(CosineProductTest, AGradientThatIsNotWantedIsNotTouched) {
  const Reference want = Wanted();
  runner_->SkipInputGradient(0);
  runner_->Forward();
  runner_->BackwardInput();
  for (float value : runner_->InputGradient(0)) ASSERT_TRUE(std::isnan(value));
  const int64_t first = GetParam().in[0].shape.count(1);
  if (runner_->inputs() > 1) ExpectNear({runner_->InputGradient(1)[0]}, {want.dx[first]}, 2e-6f, "another input's");
}

TEST_P(CosineProductTest, PiecesOfRowsMakeTheWholeGradientBitForBit) {
  if (!UnderTest().device->is_host()) GTEST_SKIP() << "a GPU computes the gradient as a whole";
  ASSERT_TRUE(op_->has_params_rows());
  runner_->Forward();
  runner_->BackwardParams();
  Values want = runner_->ParamGradient(0);
  for (int64_t step : {1, 2, 6, 24, 1000}) {
    EXPECT_EQ(GradientInPieces(&*runner_, GetParam(), step, false), want) << step;
  }
  for (float& value : want) value += 1;
  const Values added = GradientInPieces(&*runner_, GetParam(), 1000, true);
  ExpectNear(added, want, 1e-6f, "added rows");
  EXPECT_EQ(GradientInPieces(&*runner_, GetParam(), 5, true), added);
}

/// The gradient of the features is a sum over shards; all else is theirs alone.
TEST_P(CosineProductTest, ShardsComputeWhatOneDoes) {
  const ProductCase& c = GetParam();
  const Reference want = Wanted();
  const Values weights = runner_->Param(0), dy = RandomValues(c.rows() * c.num_output, 22);
  for (int64_t shards : {2, 3, 7}) {
    Values dx(want.dx.size(), 0.0f);
    for (int64_t shard = 0; shard < shards; ++shard) {
      const Range here = PartOf(c.num_output, shard, shards);
      if (here.empty()) continue;
      ProductCase part = c;
      part.num_output = here.size();
      Make(part);
      runner_->SetParam(0,
                        Values(weights.begin() + here.begin * c.columns(), weights.begin() + here.end * c.columns()));
      Values part_dy, part_y;
      for (int64_t row = 0; row < c.rows(); ++row) {
        const int64_t at = row * c.num_output;
        part_dy.insert(part_dy.end(), dy.begin() + at + here.begin, dy.begin() + at + here.end);
        part_y.insert(part_y.end(), want.y.begin() + at + here.begin, want.y.begin() + at + here.end);
      }
      runner_->SetOutputGradient(0, part_dy);
      runner_->Forward();
      ExpectNear(runner_->Output(), part_y, 1e-6f, "output");
      runner_->BackwardInput();
      const Values part_dx = GetParam().SideBySide([this](int i) { return runner_->InputGradient(i); });
      for (size_t i = 0; i < dx.size(); ++i) dx[i] += part_dx[i];
      runner_->BackwardParams();
      ExpectNear(runner_->ParamGradient(0),
                 Values(want.dw.begin() + here.begin * c.columns(), want.dw.begin() + here.end * c.columns()), 2e-6f,
                 "weights' gradient");
    }
    ExpectNear(dx, want.dx, 2e-6f, "sum of the input's gradients of " + std::to_string(shards) + " shards");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CosineProductTest, testing::ValuesIn(kProductCases), NameOf);

/// Several tiles, the last of them short, and threads that share them.
const ProductCase kTiles[] = {{"tiles", {{{3, 600}, 1}}, 250}};
INSTANTIATE_TEST_SUITE_P(Tiles, CosineProductTest, testing::ValuesIn(kTiles), NameOf);

}  // namespace
}  // namespace hp::test
