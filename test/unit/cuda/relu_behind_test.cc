#include "backend/activation_rules.h"
#include "backend/cuda/add_bias.h"
#include "backend/cuda/column_sums.h"
#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_test_util.h"
#include "test/unit/cuda/gpu_under_test.h"

#include <algorithm>
#include <tuple>

namespace hp::test {
namespace {

const Shape kIn = {2, 3, 6, 5}, kWeights = {8, 3, 3, 3}, kBias = {8};

std::unique_ptr<Op> Convolution(bool input_gradient) {
  ConvolutionDesc desc;
  desc.num_output = kWeights[0];
  desc.kernel_h = desc.kernel_w = 3;
  desc.pad_h = desc.pad_w = 1;
  desc.input_gradient = input_gradient;
  return *UnderTest().backend->Convolution(desc, {{kIn, 1}});
}

/// A real GPU's library may have no engine for it that hands NaNs on.
bool TakesRelu(Op& convolution) {
  const bool takes = convolution.TakeReluBehind();
  EXPECT_TRUE(takes || dynamic_cast<const FakeGpu*>(&GpuUnderTest()) == nullptr);
  return takes;
}

/// What a convolution and a ReLU behind it compute, of one step or of two.
struct Computed {
  Values y, d_x, d_w, d_b;
};

Computed Compute(bool input_gradient, bool one_step) {
  const std::unique_ptr<Op> convolution = Convolution(input_gradient);
  const ActivationDesc desc = activation::Relu<activation::From::kOutput>{0};
  const std::unique_ptr<Op> relu = *UnderTest().backend->Activation(desc, convolution->outputs());
  EXPECT_TRUE(relu->is_plain_relu());
  if (one_step && !TakesRelu(*convolution)) one_step = false;
  if (one_step) {
    EXPECT_TRUE(convolution->TakeReluGradientBehind());
    EXPECT_TRUE(convolution->backward_reads_output());
  }
  OpRunner run(convolution.get(), {{kIn, 1}}, {kWeights, kBias});
  run.SetInput(0, RandomValues(kIn.count(), 1));
  run.SetParam(0, RandomValues(kWeights.count(), 2));
  run.SetParam(1, RandomValues(kBias.count(), 3));
  if (!input_gradient) run.SkipInputGradient(0);
  run.Forward();
  Computed computed;
  computed.y = run.Output();
  Values gradient = RandomValues(computed.y.size(), 4);
  if (!one_step) {
    OpRunner behind(relu.get(), convolution->outputs(), {}, /*in_place=*/true);
    behind.SetInput(0, computed.y);
    behind.SetOutputGradient(0, gradient);
    behind.Forward();
    computed.y = behind.Output();
    behind.BackwardInput();
    gradient = behind.InputGradient();
  }
  run.SetOutputGradient(0, gradient);
  if (input_gradient) {
    run.BackwardInput();
    computed.d_x = run.InputGradient();
    // The second call finds what the first one has left of the gradient.
    run.SetOutputGradient(0, ReadTensor(run.d_out()[0]));
  }
  run.BackwardParams();
  run.BackwardParams(/*accumulate=*/true);
  computed.d_w = run.ParamGradient(0);
  computed.d_b = run.ParamGradient(1);
  return computed;
}

/// The same bits, with one pass over the output less in each direction.
TEST(ReluBehindConvolution, IsTheReluOfAStepOfItsOwn) {
  for (const bool input_gradient : {true, false}) {
    SCOPED_TRACE(input_gradient);
    const Computed one = Compute(input_gradient, true), two = Compute(input_gradient, false);
    EXPECT_EQ(one.y, two.y);
    EXPECT_EQ(one.d_x, two.d_x);
    EXPECT_EQ(one.d_w, two.d_w);
    EXPECT_EQ(one.d_b, two.d_b);
    EXPECT_GT(std::count(one.y.begin(), one.y.end(), 0.0f), 0) << "nothing was below zero";
  }
}

TEST(ReluBehindConvolution, HandsNansOn) {
  const std::unique_ptr<Op> convolution = Convolution(false);
  if (!TakesRelu(*convolution)) GTEST_SKIP() << "the ReLU is a step of its own";
  OpRunner run(convolution.get(), {{kIn, 1}}, {kWeights, kBias});
  Values x = RandomValues(kIn.count(), 1);
  x[7] = std::numeric_limits<float>::quiet_NaN();
  run.SetInput(0, x);
  run.SetParam(0, RandomValues(kWeights.count(), 2));
  run.SetParam(1, RandomValues(kBias.count(), 3));
  run.Forward();
  const Values y = run.Output();
  EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](float value) { return std::isnan(value); }));
}

/// Where cuDNN has no plan with the bias.
TEST(AddBias, MakesTheReluOfTheSum) {
  constexpr int64_t kRows = 37, kColumns = 5;
  const GpuStream stream = GpuUnderTest().stream(Device::kCompute);
  Values y = RandomValues(kRows * kColumns, 1), want = y;
  const Values bias = RandomValues(kColumns, 2);
  y[3] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(0.0f, want[i] + bias[i % kColumns]);
  cuda::AddBias(stream, kRows, kColumns, kColumns, bias.data(), ElementType::kFloat32, y.data(), /*relu=*/true);
  ASSERT_TRUE(GpuUnderTest().Synchronize().ok());
  EXPECT_TRUE(std::isnan(y[3]));
  y[3] = want[3];
  EXPECT_EQ(y, want);
}

/// In packs of 16 bytes or one by one: the bits of the two passes it replaces.
TEST(ReluColumnSums, AreThoseOfTheTwoPasses) {
  const GpuStream stream = GpuUnderTest().stream(Device::kCompute);
  for (const ElementType element : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    for (const auto& [rows, columns, shift] : {std::tuple<int64_t, int64_t, int64_t>{1, 8, 0},
                                               {50, 16, 0},
                                               {50, 16, 1},
                                               {3000, 64, 0},
                                               {77, 5, 0},
                                               {20, 12, 0},
                                               {150000, 1, 0}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + ", shifted by " + std::to_string(shift));
      const TensorDesc desc = {Shape{rows, columns}, 1, element};
      const Values seen = RandomValues(desc.count(), 1), gradient = RandomValues(desc.count(), 2);
      Values y(desc.count() + shift), dy(desc.count() + shift), masked(desc.count());
      WriteTensor({desc, y.data() + shift}, seen);
      WriteTensor({desc, dy.data() + shift}, gradient);
      Values expected = gradient;
      for (size_t i = 0; i < expected.size(); ++i) expected[i] *= seen[i] > 0 ? 1.0f : 0.0f;
      WriteTensor({desc, masked.data()}, expected);
      const int64_t floats = cuda::ColumnSumsScratch(rows, columns);
      Values sums(floats), scratch(floats), got(columns, 1), want(columns, 1);
      cuda::ReluColumnSums(stream, rows, columns, element, y.data() + shift, dy.data() + shift, sums.data());
      cuda::AddColumnSums(stream, rows, columns, sums.data(), true, got.data());
      cuda::ColumnSums(stream, rows, columns, element, masked.data(), true, want.data(), scratch.data());
      ASSERT_TRUE(GpuUnderTest().Synchronize().ok());
      EXPECT_EQ(ReadTensor({desc, dy.data() + shift}), ReadTensor({desc, masked.data()}));
      EXPECT_EQ(got, want);
    }
  }
}

/// Each convolution with a ReLU keeps them for each solver.
TEST(ColumnSumsScratch, IsOfManyPiecesAndOfFewMegabytes) {
  const int64_t most = 512 * 1024;
  for (const int64_t columns : {1, 3, 20, 64, 96, 512, 4096, 1000000}) {
    for (const int64_t rows : {1, 128, 12544, 387200, 3211264}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const int64_t floats = cuda::ColumnSumsScratch(rows, columns), pieces = floats / columns;
      EXPECT_EQ(floats, pieces * columns);
      EXPECT_LE(floats, std::max(most, columns));
      EXPECT_GE(pieces, 1);
      EXPECT_LE(pieces, 16 * 1024) << "a thread of the last kernel would add up too many";
      if (rows * columns > 100 * most && columns >= 64) {
        EXPECT_GE(floats, most * 9 / 10) << "few threads";
      }
    }
  }
}

}  // namespace
}  // namespace hp::test
