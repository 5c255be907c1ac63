#include "backend/cpu/update.h"

#include "test/unit/backend/op_test_util.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hp::test {
namespace {

Backend& Gpu() { return *UnderTest().backend; }

void Synchronize() { ASSERT_TRUE(UnderTest().device->Synchronize().ok()); }

struct Parameter {
  Values gradient, history, weights, second;
  explicit Parameter(int64_t n)
      : gradient(RandomValues(n, 1)),
        history(RandomValues(n, 2)),
        weights(RandomValues(n, 3)),
        second(RandomValues(n, 4)) {
    for (float& value : second) value *= value;
    if (n > 2) weights[1] = 0;  // sign(0) is 0
  }
  UpdatePart Part(const UpdateCoefficients& c, int64_t begin) {
    return {c,
            static_cast<int64_t>(weights.size()) - begin,
            gradient.data() + begin,
            history.data() + begin,
            weights.data() + begin,
            second.data() + begin};
  }
};

/// Beside the CPU's, whose test holds it to the equations. Contraction into fused multiplications may differ.
TEST(UpdateParams, IsTheCpus) {
  using enum UpdateRule;
  for (const auto& [rule, l1] : {std::pair{kSgd, 0.0f},
                                 {kSgd, 0.03f},
                                 {kNesterov, 0.0f},
                                 {kNesterov, 0.03f},
                                 {kSquares, 0.0f},
                                 {kSquares, 0.03f},
                                 {kAdaDelta, 0.0f},
                                 {kAdaDelta, 0.03f},
                                 {kAdam, 0.0f},
                                 {kAdam, 0.03f},
                                 {kAverage, 0.0f}}) {
    const UpdateCoefficients c = {.rate = 0.1f,
                                  .keep = 0.9f,
                                  .l2 = 0.02f,
                                  .l1 = l1,
                                  .gradient_scale = 0.25f,
                                  .delta = 0.01f,
                                  .keep2 = 0.99f,
                                  .rule = rule};
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 1000, 5003}) {
      for (const int64_t begin : {int64_t{0}, std::min<int64_t>(n, 3)}) {  // a part that is not aligned
        Parameter cpu(n), gpu(n);
        for (Parameter* parameter : {&cpu, &gpu}) {
          if (rule != kSquares && rule != kAdaDelta) break;
          for (float& history : parameter->history) history *= history;
        }
        hp::UpdateParams(cpu.Part(c, begin));
        const UpdatePart part = gpu.Part(c, begin);
        Gpu().UpdateParams({&part, 1});
        if (UnderTest().waits) {
          EXPECT_EQ(gpu.weights, Parameter(n).weights);
        }
        Synchronize();
        ExpectNear(gpu.history, cpu.history, 1e-6f, "history");
        ExpectNear(gpu.weights, cpu.weights, 1e-6f, "weights");
        ExpectNear(gpu.second, cpu.second, 1e-6f, "second history");
      }
    }
  }
}

/// More parameters than one launch takes, of all sizes: each as if it were alone.
TEST(UpdateParams, TakesManyParametersAtOnce) {
  std::vector<Parameter> together, alone;
  for (int64_t i = 0; i < 130; ++i) together.emplace_back(i * i % 1013), alone.emplace_back(i * i % 1013);
  std::vector<UpdatePart> parts;
  for (size_t i = 0; i < together.size(); ++i) {
    const UpdateCoefficients c = {.rate = 0.01f * static_cast<float>(i + 1),
                                  .keep = 0.9f,
                                  .l2 = 0.02f,
                                  .delta = 0.01f,
                                  .keep2 = 0.99f,
                                  .rule = UpdateRule::kAdam};
    const int64_t begin = i % 3 == 0 && !together[i].weights.empty() ? 1 : 0;
    parts.push_back(together[i].Part(c, begin));
    const UpdatePart part = alone[i].Part(c, begin);
    Gpu().UpdateParams({&part, 1});
  }
  Gpu().UpdateParams(parts);
  Synchronize();
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].history, alone[i].history) << i;
    EXPECT_EQ(together[i].second, alone[i].second) << i;
    EXPECT_EQ(together[i].weights, alone[i].weights) << i;
  }
}

/// A copy of the values beside them, in NHWC with and without places behind the channels, or in order.
TEST(UpdateParams, WritesACopyToo) {
  struct Form {
    int64_t rows, channels, pixels, stride;
  };
  for (const ElementType element : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    for (const Form& form : {Form{1, 1, 1, 1}, {1003, 1, 1, 1}, {7, 5, 9, 5}, {4, 3, 121, 8}, {6, 32, 1, 32}}) {
      for (const int64_t begin : {0, 1}) {  // values that are not aligned
        SCOPED_TRACE(testing::Message() << form.rows << " x " << form.channels << " x " << form.pixels << ", stride "
                                        << form.stride << ", type " << static_cast<int>(element) << " from " << begin);
        const int64_t n = form.rows * form.channels * form.pixels, places = form.rows * form.pixels * form.stride;
        Parameter parameter(n + begin);
        UpdatePart part = parameter.Part({.rate = 0.1f, .keep = 0.9f}, begin);
        ReachableVector<float> copy(places, 77);
        part.copy = {copy.data(), element, form.channels, form.pixels, form.stride};
        const TensorDesc places_desc = {Shape{places}, 1, element};
        WriteTensor({places_desc, copy.data()}, Values(places, 77));
        Gpu().UpdateParams({&part, 1});
        Synchronize();
        Values want(places, 77);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t pixel = i % form.pixels, line = i / form.pixels;
          const int64_t row = line / form.channels, channel = line % form.channels;
          want[(row * form.pixels + pixel) * form.stride + channel] = Rounded(element, parameter.weights[begin + i]);
        }
        EXPECT_EQ(ReadTensor({places_desc, copy.data()}), want);
      }
    }
  }
}

/// Wherever in a part a gradient is not finite, its check says so, and no other's does.
TEST(UpdateParams, SeesEveryGradientThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const int64_t at : {0, 5, 999, 1002}) {
      Parameter good(1003), spoilt(1003), unasked(1003);
      spoilt.gradient[at] = unasked.gradient[at] = bad;
      good.gradient[at] = std::numeric_limits<float>::max();
      ReachableVector<double> checks = {0, 0};
      UpdatePart parts[] = {good.Part({.rate = 0.1f}, 0), spoilt.Part({.rate = 0.1f}, 0), unasked.Part({}, 0)};
      parts[0].not_finite = &checks[0], parts[1].not_finite = &checks[1];
      Gpu().UpdateParams(parts);
      Synchronize();
      EXPECT_EQ(checks[0], 0) << bad << " at " << at;
      EXPECT_TRUE(std::isnan(checks[1])) << bad << " at " << at;
    }
  }
}

double SumOfSquaresNow(const Values& values) {
  ReachableVector<double> sum = {-1};
  const SquaresPart part = {values.data(), static_cast<int64_t>(values.size()), sum.data()};
  Gpu().SumsOfSquares({&part, 1});
  if (UnderTest().waits) {
    EXPECT_EQ(sum[0], -1);
  }
  Synchronize();
  return sum[0];
}

/// Below, at and beyond the size from which the sum is cut into as many parts as it ever is.
TEST(SumsOfSquares, AddsInDouble) {
  for (const int64_t n : {0, 1, 255, 4096, 4097, 70'000, 4096 * 1024, 4096 * 1024 + 1, 5'000'003}) {
    const Values values = RandomValues(n, 5);
    long double exact = 0;
    for (const float value : values) exact += static_cast<long double>(value) * value;
    const double want = static_cast<double>(exact);
    EXPECT_NEAR(SumOfSquaresNow(values), want, 1e-13 * want) << n;
  }
  EXPECT_NEAR(SumOfSquaresNow(Values(70'000, 1e-30f)), 7e-56, 1e-61);  // far below the least float
}

TEST(Clear, SetsAllToZeroAndNothingBehindIt) {
  for (const size_t n : {0, 1, 255, 4097, 70'000}) {
    Values values = RandomValues(static_cast<int64_t>(n) + 1, 7);
    const float behind = values.back();
    Gpu().Clear({values.data(), n});
    Synchronize();
    EXPECT_EQ(std::count(values.begin(), values.end() - 1, 0.0f), static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(values.back(), behind);
  }
}

TEST(SumsOfSquares, GivesTheSameBitsAgain) {
  const Values values = RandomValues(300'000, 6);
  EXPECT_EQ(SumOfSquaresNow(values), SumOfSquaresNow(values));
}

/// Two sums wait in the stream at once: the second must not spoil what the first keeps between its kernels.
TEST(SumsOfSquares, SumsInARowDoNotMix) {
  const Values a = RandomValues(20'000, 7), b = RandomValues(20'000, 8);
  const double want_a = SumOfSquaresNow(a), want_b = SumOfSquaresNow(b);
  ReachableVector<double> sums(2);
  const SquaresPart parts[] = {{a.data(), 20'000, &sums[0]}, {b.data(), 20'000, &sums[1]}};
  Gpu().SumsOfSquares({&parts[0], 1});
  Gpu().SumsOfSquares({&parts[1], 1});
  Synchronize();
  EXPECT_EQ(sums[0], want_a);
  EXPECT_EQ(sums[1], want_b);
}

TEST(SumsOfSquares, TakesManyParametersAtOnce) {
  std::vector<Values> values;
  for (int64_t i = 0; i < 100; ++i) values.push_back(RandomValues(i % 7 == 0 ? 60'000 + i : i * 50, 9));
  ReachableVector<double> sums(values.size(), -1);
  std::vector<SquaresPart> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    parts.push_back({values[i].data(), static_cast<int64_t>(values[i].size()), &sums[i]});
  }
  Gpu().SumsOfSquares(parts);
  Synchronize();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(sums[i], SumOfSquaresNow(values[i])) << i;
}

TEST(SumsOfSquares, SeesEveryValueThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0, 4095, 4096, 69'999}) {
      Values values(70'000, 1.0f);
      values[at] = bad;
      EXPECT_FALSE(std::isfinite(SumOfSquaresNow(values))) << bad << " at " << at;
    }
  }
  EXPECT_TRUE(std::isfinite(SumOfSquaresNow(Values(1000, std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace hp::test
