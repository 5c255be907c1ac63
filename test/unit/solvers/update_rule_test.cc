#include "solvers/update_rule.h"

#include "backend/cpu/update.h"

#include "gtest/gtest.h"
#include <omp.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace hp {
namespace {

std::vector<float> Random(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

struct Update {
  std::vector<float> gradient, history, weights, second;
  explicit Update(int64_t n)
      : gradient(Random(n, 1)), history(Random(n, 2)), weights(Random(n, 3)), second(Random(n, 4)) {
    if (n > 2) weights[1] = 0;  // sign(0) is 0
  }
  void Run(const UpdateCoefficients& c) { Run(c, 0, static_cast<int64_t>(weights.size())); }
  void Run(const UpdateCoefficients& c, int64_t begin, int64_t end) {
    UpdateParams({c, end - begin, gradient.data() + begin, history.data() + begin, weights.data() + begin,
                  second.data() + begin});
  }
};

double Sign(double value) { return (value > 0) - (value < 0); }

TEST(UpdateParams, FollowsTheEquations) {
  const UpdateCoefficients c = {.rate = 0.1f, .keep = 0.9f, .l2 = 0.02f, .l1 = 0.03f, .gradient_scale = 0.25f};
  for (int64_t n : {0, 1, 2, 15, 16, 17, 1000, (1 << 15) + 5, 200'003}) {
    const Update before(n);
    Update after(n);
    after.Run(c);
    for (int64_t i = 0; i < n; ++i) {
      const double w = before.weights[i];
      const double g = 0.25 * before.gradient[i] + double{c.l2} * w + double{c.l1} * Sign(w);
      const double h = double{c.keep} * before.history[i] + double{c.rate} * g;
      ASSERT_NEAR(after.history[i], h, 1e-6) << i << " of " << n;
      ASSERT_NEAR(after.weights[i], w - h, 1e-6) << i << " of " << n;
    }
  }
}

TEST(UpdateParams, FollowsTheEquationsOfNesterov) {
  const UpdateCoefficients c = {.rate = 0.1f, .keep = 0.9f, .l2 = 0.02f, .rule = UpdateRule::kNesterov};
  const Update before(1000);
  Update after(1000);
  after.Run(c);
  for (size_t i = 0; i < 1000; ++i) {
    const double g = before.gradient[i] + double{c.l2} * before.weights[i];
    const double h = double{c.keep} * before.history[i] + double{c.rate} * g;
    ASSERT_NEAR(after.history[i], h, 1e-6) << i;
    ASSERT_NEAR(after.weights[i], before.weights[i] - (1.9 * h - 0.9 * before.history[i]), 2e-6) << i;
  }
}

TEST(UpdateParams, FollowsTheEquationsOfSquares) {
  for (const float keep : {1.0f, 0.75f}) {  // AdaGrad, RMSProp
    const UpdateCoefficients c = {.rate = 0.1f, .keep = keep, .l1 = 0.03f, .delta = 0.5f, .rule = UpdateRule::kSquares};
    Update before(1000);
    for (float& history : before.history) history *= history;
    Update after = before;
    after.Run(c);
    for (size_t i = 0; i < 1000; ++i) {
      const double g = before.gradient[i] + double{c.l1} * Sign(before.weights[i]);
      const double h = keep * before.history[i] + (keep == 1 ? 1 : 0.25) * g * g;
      ASSERT_NEAR(after.history[i], h, 1e-5) << i;
      ASSERT_NEAR(after.weights[i], before.weights[i] - 0.1 * g / (std::sqrt(h) + 0.5), 1e-6) << i;
    }
  }
}

TEST(UpdateParams, FollowsTheEquationsOfAdaDelta) {
  const UpdateCoefficients c = {
      .rate = 0.5f, .keep = 0.75f, .l2 = 0.02f, .l1 = 0.03f, .delta = 0.125f, .rule = UpdateRule::kAdaDelta};
  Update before(1000);
  for (float& history : before.history) history *= history;
  for (float& second : before.second) second *= second;
  Update after = before;
  after.Run(c);
  for (size_t i = 0; i < 1000; ++i) {
    const double w = before.weights[i], g = before.gradient[i] + double{c.l2} * w + double{c.l1} * Sign(w);
    const double h = 0.75 * before.history[i] + 0.25 * g * g;
    const double u = g * std::sqrt((before.second[i] + 0.125) / (h + 0.125));
    ASSERT_NEAR(after.history[i], h, 1e-5) << i;
    ASSERT_NEAR(after.second[i], 0.75 * before.second[i] + 0.25 * u * u, 1e-5) << i;
    ASSERT_NEAR(after.weights[i], w - 0.5 * u, 2e-6) << i;
  }
}

TEST(UpdateParams, FollowsTheEquationsOfAdam) {
  const UpdateCoefficients c = {
      .rate = 0.1f, .keep = 0.75f, .l1 = 0.03f, .delta = 0.25f, .keep2 = 0.875f, .rule = UpdateRule::kAdam};
  Update before(1000);
  for (float& second : before.second) second *= second;
  Update after = before;
  after.Run(c);
  for (size_t i = 0; i < 1000; ++i) {
    const double g = before.gradient[i] + double{c.l1} * Sign(before.weights[i]);
    const double h = 0.75 * before.history[i] + 0.25 * g, k = 0.875 * before.second[i] + 0.125 * g * g;
    ASSERT_NEAR(after.history[i], h, 1e-6) << i;
    ASSERT_NEAR(after.second[i], k, 1e-5) << i;
    ASSERT_NEAR(after.weights[i], before.weights[i] - 0.1 * h / (std::sqrt(k) + 0.25), 2e-6) << i;
  }
}

TEST(UpdateParams, AveragesHaveNeitherRateNorHistory) {
  for (const int64_t n : {7, 200'003}) {
    const Update before(n);
    Update after = before;
    UpdateParams({{.rate = 3, .keep = 0.75f, .l2 = 2, .gradient_scale = 5, .rule = UpdateRule::kAverage},
                  n,
                  after.gradient.data(),
                  nullptr,
                  after.weights.data()});
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_NEAR(after.weights[i], 0.75 * before.weights[i] + before.gradient[i], 1e-6) << i << " of " << n;
    }
  }
}

TEST(UpdateParams, HasTheSameBitsWholeOrInParts) {
  for (const UpdateRule rule : {UpdateRule::kSgd, UpdateRule::kAdaDelta, UpdateRule::kAdam}) {
    const UpdateCoefficients c = {.rate = 0.1f, .keep = 0.9f, .l2 = 0.02f, .delta = 0.1f, .keep2 = 0.99f, .rule = rule};
    constexpr int64_t kCount = 150'016, kCut = 70'016;
    Update whole(kCount);
    for (float& history : whole.history) history *= history;
    for (float& second : whole.second) second *= second;
    Update parts = whole;
    whole.Run(c);
    parts.Run(c, 0, kCut);
    parts.Run(c, kCut, kCount);
    EXPECT_EQ(whole.weights, parts.weights);
    EXPECT_EQ(whole.history, parts.history);
    EXPECT_EQ(whole.second, parts.second);
  }
}

TEST(UpdateParams, LeavesFrozenWeightsAlone) {
  Update update(100);
  const std::vector<float> weights = update.weights;
  update.history.assign(100, 0);
  update.Run({.rate = 0, .keep = 0.9f, .l2 = 0.5f});
  EXPECT_EQ(update.weights, weights);
}

/// On the way, by one thread and by several.
TEST(UpdateParams, SeesEveryGradientThatIsNotFinite) {
  using enum UpdateRule;
  for (const UpdateRule rule : {kSgd, kNesterov, kSquares, kAdaDelta, kAdam}) {
    for (const float l1 : {0.0f, 0.1f}) {
      const UpdateCoefficients c = {.rate = 0.1f, .keep = 0.9f, .l1 = l1, .delta = 1, .keep2 = 0.9f, .rule = rule};
      for (const int64_t n : {1000, 70'000}) {
        Update update(n);
        double check = 0;
        const UpdatePart part = {.coefficients = c,
                                 .n = n,
                                 .gradient = update.gradient.data(),
                                 .history = update.history.data(),
                                 .weights = update.weights.data(),
                                 .second = update.second.data(),
                                 .not_finite = &check};
        update.gradient[3] = std::numeric_limits<float>::max();
        UpdateParams(part);
        EXPECT_EQ(check, 0);
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            const float good = std::exchange(update.gradient[at], bad);
            check = 0;
            UpdateParams(part);
            EXPECT_TRUE(std::isnan(check)) << bad << " at " << at << " of " << n;
            update.gradient[at] = good;
          }
        }
      }
    }
  }
}

TEST(SumOfSquares, AddsInDoubleAlikeForEveryNumberOfThreads) {
  const std::vector<float> values = Random(300'001, 7);
  long double expected = 0;
  for (float value : values) expected += static_cast<long double>(value) * value;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = SumOfSquares(values.data(), static_cast<int64_t>(values.size()));
  omp_set_num_threads(3);
  const double three = SumOfSquares(values.data(), static_cast<int64_t>(values.size()));
  omp_set_num_threads(threads);
  EXPECT_NEAR(one, static_cast<double>(expected), 1e-12 * one);
  EXPECT_EQ(one, three);
  EXPECT_EQ(SumOfSquares(nullptr, 0), 0);
}

TEST(SumOfSquares, SeesEveryValueThatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    for (int64_t at : {0, 40'000, 69'999}) {
      std::vector<float> values = Random(70'000, 8);
      values[at] = bad;
      EXPECT_FALSE(std::isfinite(SumOfSquares(values.data(), 70'000))) << bad << " at " << at;
    }
  }
  const std::vector<float> largest(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(SumOfSquares(largest.data(), 1000)));
}

TEST(LarcRate, GoesByTheNorms) {
  caffe::SolverParameter solver;
  solver.set_larc_eta(0.5f);
  EXPECT_FLOAT_EQ(LarcRate(solver, 0.1f, 16, 9, 1), 0.1f * 0.5f * 3 / 4);
  EXPECT_FLOAT_EQ(LarcRate(solver, 0.1f, 16, 0, 1), 0.1f) << "values that are all 0";
  EXPECT_FLOAT_EQ(LarcRate(solver, 0.1f, 0, 9, 1), 0.1f);
  solver.set_iter_size(2);
  EXPECT_FLOAT_EQ(LarcRate(solver, 0.1f, 16, 9, 0.5), 0.1f * 0.5f * 3 / (0.5f * 4 / 2)) << "as the update takes it";
  solver.set_larc_policy("clip");
  EXPECT_FLOAT_EQ(LarcRate(solver, 0.1f, 16, 9, 0.5), 0.1f);
  EXPECT_FLOAT_EQ(LarcRate(solver, 10, 16, 9, 0.5), 1.5f);
}

TEST(UpdateCoefficients, TakeTheFieldsOfTheSolver) {
  caffe::SolverParameter solver;
  solver.set_momentum(0.9f);
  solver.set_weight_decay(0.01f);
  solver.set_iter_size(4);
  UpdateCoefficients c = UpdateCoefficientsFor(solver, 0, 0.1f, 2, 3, 0.5f);
  EXPECT_FLOAT_EQ(c.rate, 0.2f);
  EXPECT_FLOAT_EQ(c.keep, 0.9f);
  EXPECT_FLOAT_EQ(c.l2, 0.03f);
  EXPECT_EQ(c.l1, 0);
  EXPECT_FLOAT_EQ(c.gradient_scale, 0.125f);
  solver.set_regularization_type("L1");
  c = UpdateCoefficientsFor(solver, 0, 0.1f, 2, 3, 0.5f);
  EXPECT_EQ(c.l2, 0);
  EXPECT_FLOAT_EQ(c.l1, 0.03f);
}

TEST(UpdateCoefficients, HaveTheRuleOfTheType) {
  caffe::SolverParameter solver;
  solver.set_momentum(0.9f);
  EXPECT_EQ(UpdateCoefficientsFor(solver, 0, 1, 1, 1, 1).rule, UpdateRule::kSgd);
  solver.set_type("Nesterov");
  UpdateCoefficients c = UpdateCoefficientsFor(solver, 0, 1, 1, 1, 1);
  EXPECT_EQ(c.rule, UpdateRule::kNesterov);
  EXPECT_EQ(c.keep, 0.9f);
  solver.set_type("AdaGrad");
  c = UpdateCoefficientsFor(solver, 0, 1, 1, 1, 1);
  EXPECT_EQ(c.rule, UpdateRule::kSquares);
  EXPECT_EQ(c.keep, 1);
  EXPECT_EQ(c.delta, 1e-8f);
  solver.set_type("RMSProp");
  EXPECT_EQ(UpdateCoefficientsFor(solver, 0, 1, 1, 1, 1).keep, 0.99f);
  solver.set_type("AdaDelta");
  c = UpdateCoefficientsFor(solver, 0, 1, 1, 1, 1);
  EXPECT_EQ(c.rule, UpdateRule::kAdaDelta);
  EXPECT_EQ(c.keep, 0.9f);
}

TEST(UpdateCoefficients, OfAdamAreCorrectedForTheFirstUpdates) {
  caffe::SolverParameter solver;
  solver.set_type("Adam");
  solver.set_momentum(0.9f);
  const UpdateCoefficients first = UpdateCoefficientsFor(solver, 0, 0.5f, 2, 1, 1);
  EXPECT_EQ(first.rule, UpdateRule::kAdam);
  EXPECT_EQ(first.keep, 0.9f);
  EXPECT_EQ(first.keep2, 0.999f);
  EXPECT_EQ(first.delta, 1e-8f);
  EXPECT_NEAR(first.rate, std::sqrt(1 - 0.999) / (1 - 0.9), 1e-5);
  EXPECT_NEAR(UpdateCoefficientsFor(solver, 2, 0.5f, 2, 1, 1).rate,
              std::sqrt(1 - std::pow(0.999, 3)) / (1 - std::pow(0.9, 3)), 1e-5);
  EXPECT_NEAR(UpdateCoefficientsFor(solver, 1'000'000, 0.5f, 2, 1, 1).rate, 1, 1e-6);
}

}  // namespace
}  // namespace hp
