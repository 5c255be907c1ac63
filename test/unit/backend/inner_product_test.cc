#include "test/unit/backend/product_test_util.h"

namespace hp::test {
namespace {

class InnerProductTest : public testing::TestWithParam<ProductCase> {
 protected:
  static Shape OutputShape() {
    std::vector<int64_t> dims = GetParam().in[0].shape.dims();
    dims.resize(GetParam().axis);
    dims.push_back(GetParam().num_output);
    return Shape(dims);
  }

  void SetUp() override {
    const ProductCase& c = GetParam();
    InnerProductDesc desc;
    desc.num_output = c.num_output, desc.bias = c.bias;
    desc.axis = c.axis, desc.transposed = c.transposed;
    auto op = UnderTest().backend->InnerProduct(desc, c.Supported());
    ASSERT_TRUE(op.ok()) << op.status();
    op_ = std::move(op).value();
    ASSERT_EQ(op_->outputs()[0], (TensorDesc{OutputShape(), 1}));
    std::vector<Shape> params = {{c.num_output, c.columns()}};
    if (c.transposed) params[0] = {c.columns(), c.num_output};
    if (c.bias) params.push_back({c.num_output});
    runner_.emplace(op_.get(), c.Supported(), params);
    for (size_t i = 0; i < c.in.size(); ++i) {
      runner_->SetInput(static_cast<int>(i), RandomValues(c.in[i].count(), static_cast<uint32_t>(i)));
    }
    runner_->SetParam(0, RandomValues(params[0].count(), 20));
    if (c.bias) runner_->SetParam(1, RandomValues(c.num_output, 21));
    runner_->SetOutputGradient(0, RandomValues(c.rows() * c.num_output, 22));
  }

  std::unique_ptr<Op> op_;
  std::optional<OpRunner> runner_;
};

TEST_P(InnerProductTest, ForwardIsTheProduct) {
  const ProductCase& c = GetParam();
  runner_->Forward();
  const Values weights = runner_->Param(0);
  Values want;
  for (int64_t r = 0; r < c.rows(); ++r) {
    for (int64_t o = 0; o < c.num_output; ++o) {
      double sum = c.bias ? runner_->Param(1)[o] : 0;
      int64_t column = 0;
      for (size_t i = 0; i < c.in.size(); ++i) {
        const int64_t columns = c.in[i].shape.count(c.axis);
        for (int64_t k = 0; k < columns; ++k, ++column) {
          const int64_t weight = c.transposed ? column * c.num_output + o : o * c.columns() + column;
          sum += static_cast<double>(runner_->input(static_cast<int>(i))[r * columns + k]) * weights[weight];
        }
      }
      want.push_back(static_cast<float>(sum));
    }
  }
  // Rounding grows as the root of the number of terms.
  const float tolerance = 1e-5f * std::max(1.0f, std::sqrt(static_cast<float>(c.columns()) / 256));
  ExpectNear(runner_->Output(), want, tolerance, "output");
}

TEST_P(InnerProductTest, GradientsMatchCentralDifferences) { CheckGradients(&*runner_); }

TEST_P(InnerProductTest, AccumulatedGradientsAreSums) {
  runner_->Forward();
  runner_->BackwardParams();
  std::vector<Values> once;
  for (int i = 0; i < runner_->params(); ++i) once.push_back(runner_->ParamGradient(i));
  runner_->BackwardParams(/*accumulate=*/true);
  for (int i = 0; i < runner_->params(); ++i) {
    Values twice = once[i];
    for (float& value : twice) value *= 2;
    ExpectNear(runner_->ParamGradient(i), twice, 1e-5f, "twice parameter " + std::to_string(i));
  }
}

TEST_P(InnerProductTest, AGradientThatIsNotWantedIsNotTouched) {
  runner_->SkipInputGradient(0);
  runner_->Forward();
  runner_->BackwardInput();
  for (float value : runner_->InputGradient(0)) ASSERT_TRUE(std::isnan(value));
  for (int i = 1; i < runner_->inputs(); ++i) {
    for (float value : runner_->InputGradient(i)) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(InnerProductTest, PiecesOfRowsMakeTheWholeGradientBitForBit) {
  if (!UnderTest().device->is_host()) GTEST_SKIP() << "a GPU computes the gradient as a whole";
  const ProductCase& c = GetParam();
  ASSERT_EQ(op_->has_params_rows(), !c.transposed);
  if (c.transposed) return;  // rows of its gradient are no outputs
  Values want = WholeGradient(&*runner_);
  const Values whole = GradientInPieces(&*runner_, c, c.num_output, false);
  ExpectNear(whole, want, 1e-5f, "rows");
  for (int64_t step : {1, 2, 6, 8}) EXPECT_EQ(GradientInPieces(&*runner_, c, step, false), whole) << step;
  for (float& value : want) value += 1;
  ExpectNear(GradientInPieces(&*runner_, c, 3, true), want, 1e-5f, "added rows");
}

TEST_P(InnerProductTest, TheSameCallGivesTheSameBits) {
  std::vector<std::vector<Values>> results(2);
  for (std::vector<Values>& result : results) {
    runner_->Forward();
    result.push_back(runner_->Output());
    runner_->BackwardInput();
    result.push_back(runner_->InputGradient());
    runner_->BackwardParams();
    result.push_back(runner_->ParamGradient(0));
  }
  EXPECT_EQ(results[0], results[1]);
}

INSTANTIATE_TEST_SUITE_P(Cases, InnerProductTest, testing::ValuesIn(kProductCases), NameOf);

const ProductCase kStoredOtherwise[] = {
    {"plain", {{{5, 12}, 1}}, 7, true, 1, true},
    {"no bias", {{{4, 33}, 1}}, 10, false, 1, true},
    {"many columns", {{{3, 2100}, 1}}, 5, true, 1, true},
    {"images, NHWC", {{{6, 5, 3, 2}, 5}}, 20, true, 1, true},
    {"images, blocked", {{{6, 32, 3, 2}, 16}}, 9, true, 1, true},
    {"blocks of several layouts", {{{3, 16, 2, 2}, 16}, {{3, 3, 2, 2}, 1}, {{3, 6, 3, 1}, 6}}, 10, true, 1, true},
};
INSTANTIATE_TEST_SUITE_P(Transposed, InnerProductTest, testing::ValuesIn(kStoredOtherwise), NameOf);

const ProductCase kOfOtherAxes[] = {
    {"rows of rows", {{{5, 3, 4}, 1}}, 7, true, 2},
    {"lines of images", {{{2, 3, 4, 5}, 1}}, 6, false, 3},
    {"planes of images, NHWC", {{{2, 5, 3, 2}, 5}}, 8, true, 2},
    {"lines of images, blocked", {{{2, 16, 3, 2}, 16}}, 4, true, 3},
    {"planes of images, transposed", {{{2, 5, 3, 2}, 5}}, 8, true, 2, true},
};
INSTANTIATE_TEST_SUITE_P(Axes, InnerProductTest, testing::ValuesIn(kOfOtherAxes), NameOf);

TEST(InnerProductRows, ARowsResultDoesNotDependOnTheOthers) {
  // What a pipeline of micro-batches leans on: rows are independent samples.
  InnerProductDesc desc;
  desc.num_output = 6;
  const TensorDesc two = {Shape{2, 40}, 1}, four = {Shape{4, 40}, 1};
  auto small = UnderTest().backend->InnerProduct(desc, {two}), large = UnderTest().backend->InnerProduct(desc, {four});
  const Values x = RandomValues(160, 1), weights = RandomValues(240, 2), bias = RandomValues(6, 3);
  OpRunner a(small->get(), {two}, {{6, 40}, {6}}), b(large->get(), {four}, {{6, 40}, {6}});
  for (OpRunner* runner : {&a, &b}) {
    runner->SetParam(0, weights);
    runner->SetParam(1, bias);
  }
  a.SetInput(0, Values(x.begin(), x.begin() + 80));
  b.SetInput(0, x);
  a.Forward();
  b.Forward();
  const Values whole = b.Output();
  ExpectNear(a.Output(), Values(whole.begin(), whole.begin() + 12), 1e-6f, "first rows");
}

}  // namespace
}  // namespace hp::test
