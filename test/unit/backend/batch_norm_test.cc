#include "test/unit/backend/op_test_util.h"

namespace hp::test {
namespace {

constexpr float kEps = 1e-3f, kKeep = 0.9f, kShare = 0.7f;

struct Channel {
  double mean = 0, variance = 0;
};

/// Of channel `c` of a dense NCHW tensor; the definition, in double.
Channel Moments(const Shape& shape, const Values& x, int64_t c) {
  const int64_t pixels = shape.count(2), channels = shape[1];
  const double count = static_cast<double>(shape[0] * pixels);
  Channel channel;
  const auto for_each = [&](auto visit) {
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t p = 0; p < pixels; ++p) visit(double{x[(n * channels + c) * pixels + p]});
    }
  };
  for_each([&](double value) { channel.mean += value / count; });
  for_each([&](double value) { channel.variance += (value - channel.mean) * (value - channel.mean) / count; });
  return channel;
}

Values Normalized(const Shape& shape, const Values& x, const std::vector<Channel>& channels) {
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const Channel& of = channels[i / shape.count(2) % shape[1]];
    y[i] = static_cast<float>((x[i] - of.mean) / std::sqrt(of.variance + kEps));
  }
  return y;
}

const Shape kShapes[] = {{4, 16, 3, 5}, {2, 32, 7, 7},   {6, 10},         {3, 5, 1, 1},
                         {1, 8, 2, 2},  {2, 48, 24, 25}, {3, 16, 20, 41}, {900, 12}};

/// Far from zero, so that a variance of differences of squares would be wrong.
Values Inputs(const Shape& shape) {
  Values x = RandomValues(shape.count(), 7, -2, 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] += 30.0f * static_cast<float>(i / shape.count(2) % shape[1] % 3);
  return x;
}

class BatchNorm : public testing::Test {
 protected:
  template <typename Body>
  void ForEachCase(const Body& body, bool in_place = false, bool global = false) {
    for (const Shape& shape : kShapes) {
      for (const TensorDesc& in : LayoutsOf(shape)) {
        SCOPED_TRACE(shape.ToString() + ", in blocks of " + std::to_string(in.channel_block));
        auto op = UnderTest().backend->BatchNorm({kEps, kKeep, global, kShare}, {in});
        ASSERT_TRUE(op.ok()) << op.status();
        ASSERT_EQ(op.value()->outputs()[0], in);
        OpRunner runner(op->get(), {in}, {{shape[1]}, {shape[1]}, {1}}, in_place);
        runner.SetInput(0, Inputs(shape));
        body(shape, &runner);
      }
    }
  }
};

TEST_F(BatchNorm, NormalisesByTheRowsInTraining) {
  for (bool in_place : {false, true}) {
    ForEachCase(
        [](const Shape& shape, OpRunner* runner) {
          std::vector<Channel> channels;
          for (int64_t c = 0; c < shape[1]; ++c) channels.push_back(Moments(shape, runner->input(0), c));
          runner->Forward();
          ExpectNear(runner->Output(), Normalized(shape, runner->input(0), channels), 2e-4f, "output");
        },
        in_place);
  }
}

TEST_F(BatchNorm, GradientsMatchCentralDifferences) {
  for (bool in_place : {false, true}) {
    ForEachCase(
        [](const Shape& shape, OpRunner* runner) {
          if (shape.count() > 2000) return;  // a single difference of so many elements is lost in rounding
          Values x = RandomValues(shape.count(), 11, -2, 2);
          runner->SetInput(0, x);
          CheckGradients(runner, {.tolerance = 6e-3f, .params = false});
        },
        in_place);
  }
}

TEST_F(BatchNorm, ATestTakesTheAverages) {
  for (bool global : {false, true}) {
    ForEachCase(
        [global](const Shape& shape, OpRunner* runner) {
          const Values means = RandomValues(shape[1], 3), variances = RandomValues(shape[1], 5, 0.5f, 2);
          runner->SetParam(0, means);
          runner->SetParam(1, variances);
          runner->SetParam(2, {4});
          runner->batch().train = global;
          std::vector<Channel> channels;
          for (int64_t c = 0; c < shape[1]; ++c) channels.push_back({means[c] / 4, variances[c] / 4});
          runner->Forward();
          ExpectNear(runner->Output(), Normalized(shape, runner->input(0), channels), 1e-5f, "output");
          if (!global) return;
          const Values gradient = RandomValues(shape.count(), 9);
          runner->SetOutputGradient(0, gradient);
          runner->BackwardInput();
          Values expected(gradient.size());
          for (size_t i = 0; i < expected.size(); ++i) {
            const Channel& of = channels[i / shape.count(2) % shape[1]];
            expected[i] = static_cast<float>(gradient[i] / std::sqrt(of.variance + kEps));
          }
          ExpectNear(runner->InputGradient(), expected, 1e-5f, "gradient");
        },
        false, global);
  }
}

TEST_F(BatchNorm, NothingGatheredIsAMeanAndAVarianceOfZero) {
  ForEachCase([](const Shape& shape, OpRunner* runner) {
    for (int i = 0; i < 3; ++i) runner->SetParam(i, Values(i < 2 ? shape[1] : 1, 0.0f));
    runner->batch().train = false;
    runner->Forward();
    ExpectNear(runner->Output(), Normalized(shape, runner->input(0), std::vector<Channel>(shape[1])), 1e-5f, "output");
  });
}

/// Sub-batch 1 of 3, and half of its rows: what it adds is kept by one more sub-batch, and a share of it by other
/// layers.
TEST_F(BatchNorm, AverageGradientsAreSharesOfTheUpdate) {
  ForEachCase([](const Shape& shape, OpRunner* runner) {
    BatchContext& batch = runner->batch();
    batch.sub_batches = 3;
    batch.global_rows = 2 * shape[0];
    batch.first_sample = static_cast<uint64_t>((3 * 5 + 1) * batch.global_rows + shape[0]);
    runner->Forward();
    const float weight = 0.5f * kKeep * kShare, count = static_cast<float>(shape[0] * shape.count(2));
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    Values means, variances;
    for (int64_t c = 0; c < shape[1]; ++c) {
      const Channel of = Moments(shape, runner->input(0), c);
      means.push_back(static_cast<float>(weight * of.mean));
      variances.push_back(static_cast<float>(weight * unbiased * of.variance));
    }
    for (const float times : {1.0f, 2.0f}) {
      runner->BackwardParams(times == 2);
      Values expected[] = {means, variances, {weight}};
      for (int i = 0; i < 3; ++i) {
        for (float& value : expected[i]) value *= times;
        ExpectNear(runner->ParamGradient(i), expected[i], 1e-5f, "parameter " + std::to_string(i));
      }
    }
  });
}

TEST_F(BatchNorm, ANanReachesItsChannel) {
  const TensorDesc in{{2, 4, 3, 3}, 1};
  auto op = UnderTest().backend->BatchNorm({}, {in});
  ASSERT_TRUE(op.ok());
  OpRunner runner(op->get(), {in}, {{4}, {4}, {1}});
  Values x = RandomValues(in.count(), 1);
  x[10] = std::numeric_limits<float>::quiet_NaN();  // row 0, channel 1
  runner.SetInput(0, x);
  runner.Forward();
  const Values y = runner.Output();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 9 % 4 == 1) << i;
}

/// Moments and ScaledNorm beside BatchNorm and Broadcast, one behind the other, on the same numbers.
class SharedPasses : public testing::TestWithParam<bool> {
 protected:
  /// The runs of one case; `bias` of both.
  struct Runs {
    OpRunner norm, scale, moments, scaled;
  };

  template <typename Body>
  void ForEachCase(bool global, const Body& body) {
    Backend* const backend = UnderTest().backend.get();
    if (!backend->has_moments()) GTEST_SKIP() << "BatchNorm and Scale are always apart on this device";
    const bool bias = GetParam();
    const BatchNormDesc desc{kEps, kKeep, global, kShare};
    for (const Shape& shape : kShapes) {
      for (const TensorDesc& in : LayoutsOf(shape)) {
        SCOPED_TRACE(shape.ToString() + ", in blocks of " + std::to_string(in.channel_block));
        auto norm = backend->BatchNorm(desc, {in}), moments = backend->Moments(desc, {in});
        ASSERT_TRUE(norm.ok() && moments.ok());
        ASSERT_EQ(moments.value()->outputs()[0], in);
        const TensorDesc of_channels = moments.value()->outputs()[1];
        auto scale = backend->Broadcast({.function = broadcast::Product{}, .bias = bias}, {in});
        auto scaled = backend->ScaledNorm(bias, {in, of_channels});
        ASSERT_TRUE(scale.ok() && scaled.ok());
        std::vector<Shape> factors(bias ? 2 : 1, Shape{shape[1]});
        const std::vector<Shape> averages{{shape[1]}, {shape[1]}, {1}};
        Runs runs{{norm->get(), {in}, averages},
                  {scale->get(), {in}, factors},
                  {moments->get(), {in}, averages, /*in_place=*/true},
                  {scaled->get(), {in, of_channels}, factors}};
        for (OpRunner* runner : {&runs.norm, &runs.moments}) {
          runner->SetInput(0, Inputs(shape));
          runner->SetParam(0, RandomValues(shape[1], 3));
          runner->SetParam(1, RandomValues(shape[1], 5, 0.5f, 2));
          runner->SetParam(2, {4});
        }
        for (OpRunner* runner : {&runs.scale, &runs.scaled}) {
          for (size_t i = 0; i < factors.size(); ++i)
            runner->SetParam(static_cast<int>(i), RandomValues(shape[1], 20 + i));
        }
        body(&runs);
      }
    }
  }

  static void Forward(Runs* runs) {
    const Values x = runs->norm.input(0);
    runs->norm.Forward();
    runs->scale.SetInput(0, runs->norm.Output());
    runs->scale.Forward();
    runs->moments.Forward();
    EXPECT_EQ(runs->moments.Output(), x);
    runs->scaled.SetInput(0, x);
    runs->scaled.SetInput(1, runs->moments.Output(1));
    runs->scaled.SkipInputGradient(1);
    runs->scaled.Forward();
    ExpectNear(runs->scaled.Output(), runs->scale.Output(), 1e-4f, "output");
  }

  /// @param params_first which of the two gradients finds the sums.
  void CompareGradients(Runs* runs, bool params_first) {
    const Values gradient = RandomValues(static_cast<int64_t>(runs->scale.Output().size()), 9);
    for (OpRunner* runner : {&runs->scale, &runs->scaled}) {
      runner->SetOutputGradient(0, gradient);
      if (params_first) runner->BackwardParams(false);
      runner->BackwardInput();
      if (!params_first) runner->BackwardParams(false);
      runner->BackwardParams(true);
    }
    runs->norm.SetOutputGradient(0, runs->scale.InputGradient());
    runs->norm.BackwardInput();
    ExpectNear(runs->scaled.InputGradient(), runs->norm.InputGradient(), 3e-4f, "gradient of x");
    for (int i = 0; i < (GetParam() ? 2 : 1); ++i) {
      ExpectNear(runs->scaled.ParamGradient(i), runs->scale.ParamGradient(i), 3e-3f, "parameter " + std::to_string(i));
    }
    for (OpRunner* runner : {&runs->norm, &runs->moments}) runner->BackwardParams(false);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(runs->moments.ParamGradient(i), runs->norm.ParamGradient(i)) << i;
  }
};

TEST_P(SharedPasses, TrainAsTheTwoLayersApart) {
  for (const bool global : {false, true}) {
    for (const bool params_first : {false, true}) {
      ForEachCase(global, [&](Runs* runs) {
        Forward(runs);
        CompareGradients(runs, params_first);
        Forward(runs);  // what the sums were of is gone
        CompareGradients(runs, params_first);
      });
    }
  }
}

// The sums may be found group by group beside the gradient of x, or before, all of them.
TEST_P(SharedPasses, EitherOrderOfTheGradientsGivesTheSameBits) {
  ForEachCase(false, [&](Runs* runs) {
    std::vector<Values> first;
    for (const bool params_first : {false, true}) {
      Forward(runs);
      CompareGradients(runs, params_first);
      std::vector<Values> found{runs->scaled.InputGradient()};
      for (int i = 0; i < (GetParam() ? 2 : 1); ++i) found.push_back(runs->scaled.ParamGradient(i));
      if (first.empty()) first = found;
      EXPECT_EQ(found, first) << params_first;
    }
  });
}

TEST_P(SharedPasses, TestAsTheTwoLayersApart) {
  ForEachCase(false, [](Runs* runs) {
    for (OpRunner* runner : {&runs->norm, &runs->scale, &runs->moments, &runs->scaled}) runner->batch().train = false;
    Forward(runs);
  });
}

INSTANTIATE_TEST_SUITE_P(Bias, SharedPasses, testing::Bool());

}  // namespace
}  // namespace hp::test
