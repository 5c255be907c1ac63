// Products of factors in bfloat16 beside those in float32 of the same rounded numbers.
#include "backend/cpu/rounded_product.h"

#include "backend/product_shape.h"
#include "test/support/elements.h"
#include "test/unit/backend/product_test_util.h"

#include <numeric>

namespace hp::test {
namespace {

Values RoundedValues(int64_t count, uint32_t seed) {
  Values values = RandomValues(count, seed);
  for (float& value : values) value = Rounded(ElementType::kBFloat16, value);
  return values;
}

class RoundedProductTest : public testing::TestWithParam<ProductCase> {
 protected:
  void SetUp() override {
    if (!CpuMultipliesBFloat16()) GTEST_SKIP() << "no AVX512_BF16 or AMX here";
    const ProductCase& c = GetParam();
    InnerProductDesc desc;
    desc.num_output = c.num_output, desc.bias = c.bias, desc.axis = c.axis;
    const Shape out = ProductShape(desc, c.in[0].shape);
    op_ = MakeRoundedProduct(desc, c.in, out).value();
    if (op_ == nullptr) GTEST_SKIP() << "oneDNN has no kernel for it here";
    std::vector<TensorDesc> floats = c.in;
    for (TensorDesc& input : floats) input.element = ElementType::kFloat32;
    plain_op_ = MakeCpuBackend()->InnerProduct(desc, floats).value();
    std::vector<Shape> params = {{c.num_output, c.columns()}};
    if (c.bias) params.push_back({c.num_output});
    runner_.emplace(op_.get(), c.in, params);
    plain_.emplace(plain_op_.get(), floats, params);
    for (OpRunner* runner : {&*runner_, &*plain_}) Load(runner);
  }

  static void Load(OpRunner* runner) {
    const ProductCase& c = GetParam();
    for (size_t i = 0; i < c.in.size(); ++i) {
      runner->SetInput(static_cast<int>(i), RoundedValues(c.in[i].count(), static_cast<uint32_t>(i)));
    }
    runner->SetParam(0, RoundedValues(c.num_output * c.columns(), 20));
    if (c.bias) runner->SetParam(1, RandomValues(c.num_output, 21));
    runner->SetOutputGradient(0, RoundedValues(c.rows() * c.num_output, 22));
  }

  std::unique_ptr<Op> op_, plain_op_;
  std::optional<OpRunner> runner_, plain_;
};

TEST_P(RoundedProductTest, ComputesWhatFloatsDo) {
  const ProductCase& c = GetParam();
  for (OpRunner* runner : {&*runner_, &*plain_}) runner->Forward();
  // Of products that are exact in float32 only the order of sums differs.
  const float tolerance = 1e-5f * std::sqrt(static_cast<float>(std::max(c.columns(), c.num_output)));
  ExpectNear(runner_->Output(), plain_->Output(), tolerance, "output");
  for (OpRunner* runner : {&*runner_, &*plain_}) {
    runner->BackwardInput();
    runner->BackwardParams();
  }
  for (int i = 0; i < runner_->inputs(); ++i) {
    const bool rounded = c.in[i].element == ElementType::kBFloat16;
    ExpectNear(runner_->InputGradient(i), plain_->InputGradient(i), rounded ? 0.005f : tolerance, "input's gradient");
  }
  for (int i = 0; i < runner_->params(); ++i) {
    ExpectNear(runner_->ParamGradient(i), plain_->ParamGradient(i), tolerance, "gradient " + std::to_string(i));
  }
  EXPECT_EQ(runner_->packed_bytes(), op_->packed_bytes());
}

/// Factors that are not rounded yet.
TEST_P(RoundedProductTest, RoundsItsFactors) {
  const ProductCase& c = GetParam();
  const auto results = [this] {
    runner_->Forward();
    std::vector<Values> values = {runner_->Output()};
    runner_->BackwardInput();
    runner_->BackwardParams();
    values.insert(values.end(), {runner_->InputGradient(), runner_->ParamGradient(0)});
    return values;
  };
  const std::vector<Values> want = results();
  // A little more than a bfloat16 tells apart, and less than half of the next one.
  const auto nearly = [](Values values) {
    for (float& value : values) value *= 1 + 1.0f / 1024;
    return values;
  };
  for (int i = 0; i < runner_->inputs(); ++i) {
    if (c.in[i].element == ElementType::kFloat32) runner_->SetInput(i, nearly(runner_->input(i)));
  }
  runner_->SetParam(0, nearly(RoundedValues(c.num_output * c.columns(), 20)));
  runner_->SetOutputGradient(0, nearly(RoundedValues(c.rows() * c.num_output, 22)));
  const std::vector<Values> got = results();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << i;
}

TEST_P(RoundedProductTest, PiecesOfRowsMakeTheWholeGradientBitForBit) {
  const ProductCase& c = GetParam();
  runner_->SetOutputGradient(0, RandomValues(c.rows() * c.num_output, 22));  // those of GradientInPieces
  Values want = WholeGradient(&*runner_);
  for (int64_t step : {int64_t{1}, int64_t{6}, op_->piece_rows(), c.num_output}) {
    EXPECT_EQ(GradientInPieces(&*runner_, c, step, false), want) << step;
  }
  for (float& value : want) value += 1;
  ExpectNear(GradientInPieces(&*runner_, c, 3, true), want, 1e-5f, "added rows");
}

/// An update changes rows and writes them into the copies, and what is computed then has the bits of fresh copies.
TEST_P(RoundedProductTest, CopiesThatAnUpdateWroteAreThoseOfTheValues) {
  const ProductCase& c = GetParam();
  runner_->Forward();
  runner_->BackwardInput();
  const Values changed = RandomValues(c.num_output * c.columns(), 30);
  runner_->SetParam(0, changed);
  runner_->Call([&](const OpArgs& args) {
    PackedParams* const packed = args.params[0].packed;
    std::vector<int64_t> begins((c.num_output + PackedParams::kRowsTogether - 1) / PackedParams::kRowsTogether);
    std::iota(begins.begin(), begins.end(), 0);
    std::shuffle(begins.begin(), begins.end(), std::mt19937(1));
    for (const int64_t i : begins) {
      const int64_t begin = i * PackedParams::kRowsTogether;
      packed->RefillRows(begin, std::min(begin + PackedParams::kRowsTogether, c.num_output));
    }
    packed->MarkRefilled(args.params[0].version);
    // Were they filled once more, they would be filled from these.
    std::fill_n(const_cast<float*>(args.params[0].data), changed.size(), std::nanf(""));
  });
  const auto call = [this](const OpArgs& args) {
    op_->Forward(args);
    op_->BackwardInput(args);
  };
  for (const Tensor& input : runner_->in())
    WriteTensor(input, runner_->input(static_cast<int>(&input - runner_->in().data())));
  runner_->Call(call);
  const Values output = runner_->Output(), gradient = runner_->InputGradient();
  runner_->SetParam(0, changed);
  runner_->Call(call);
  EXPECT_EQ(output, runner_->Output());
  EXPECT_EQ(gradient, runner_->InputGradient());
}

INSTANTIATE_TEST_SUITE_P(Cases, RoundedProductTest, testing::ValuesIn(kProductCases), NameOf);

constexpr ElementType kBFloat16 = ElementType::kBFloat16;
const ProductCase kRoundedCases[] = {
    {"whole blocks", {{{32, 128}, 1}}, 64},
    {"more than a block", {{{33, 200}, 1}}, 97},
    {"images of bfloat16, NHWC", {{{6, 5, 3, 2}, 5, kBFloat16}}, 20},
    {"rows of bfloat16", {{{7, 96}, 1, kBFloat16}}, 40},
    {"blocks of both types", {{{5, 70}, 1}, {{5, 16, 2, 2}, 16, kBFloat16}, {{5, 33}, 1, kBFloat16}}, 50},
    {"rows of rows", {{{5, 3, 40}, 1}}, 17, true, 2},
};
INSTANTIATE_TEST_SUITE_P(Types, RoundedProductTest, testing::ValuesIn(kRoundedCases), NameOf);

}  // namespace
}  // namespace hp::test
