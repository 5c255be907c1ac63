#include "solvers/lr_policy.h"

#include "solvers/learning_rates.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include <cmath>
#include <string>

namespace hp {
namespace {

caffe::SolverParameter Parse(const std::string& text) {
  caffe::SolverParameter solver;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &solver)) << text;
  return solver;
}

// Caffe's GetLearningRate as it is written there, with its state.
class CaffeRate {
 public:
  explicit CaffeRate(const caffe::SolverParameter& param) : param_(param) {}

  float Next(int iter) {
    const std::string& policy = param_.lr_policy();
    if (policy == "fixed") return param_.base_lr();
    if (policy == "step") {
      current_step_ = iter / param_.stepsize();
      return param_.base_lr() * std::pow(param_.gamma(), static_cast<float>(current_step_));
    }
    if (policy == "exp") return param_.base_lr() * std::pow(param_.gamma(), static_cast<float>(iter));
    if (policy == "inv") return param_.base_lr() * std::pow(1.f + param_.gamma() * iter, -param_.power());
    if (policy == "multistep") {
      if (current_step_ < param_.stepvalue_size() && iter >= param_.stepvalue(current_step_)) ++current_step_;
      return param_.base_lr() * std::pow(param_.gamma(), static_cast<float>(current_step_));
    }
    if (policy == "poly") {
      return param_.base_lr() * std::pow(1.f - static_cast<float>(iter) / param_.max_iter(), param_.power());
    }
    return param_.base_lr() * (1.f / (1.f + std::exp(-param_.gamma() * (iter - param_.stepsize()))));
  }
  int current_step() const { return current_step_; }

 private:
  const caffe::SolverParameter param_;
  int current_step_ = 0;
};

class EveryPolicy : public testing::TestWithParam<const char*> {};

TEST_P(EveryPolicy, FollowsCaffeFromIterationToIteration) {
  const caffe::SolverParameter solver = Parse(GetParam());
  ASSERT_TRUE(CheckLearningRate(solver).ok());
  CaffeRate caffe(solver);
  for (int iter = 0; iter < 60; ++iter) {
    const float expected = caffe.Next(iter);
    EXPECT_NEAR(LearningRate(solver, iter), expected, 2e-6f * expected) << "iteration " << iter;
    EXPECT_EQ(LearningRateStep(solver, iter), caffe.current_step()) << "iteration " << iter;
  }
}

INSTANTIATE_TEST_SUITE_P(
    LearningRate, EveryPolicy,
    testing::Values("base_lr: 0.1 lr_policy: 'fixed'", "base_lr: 0.1 lr_policy: 'step' gamma: 0.5 stepsize: 7",
                    "base_lr: 0.1 lr_policy: 'exp' gamma: 0.97",
                    "base_lr: 0.01 lr_policy: 'inv' gamma: 0.001 power: 0.75",
                    "base_lr: 0.1 lr_policy: 'multistep' gamma: 0.1 stepvalue: 5 stepvalue: 6 stepvalue: 40",
                    "base_lr: 0.1 lr_policy: 'poly' power: 1.5 max_iter: 60",
                    "base_lr: 0.1 lr_policy: 'sigmoid' gamma: -0.2 stepsize: 30",
                    // What is missing is 0.
                    "lr_policy: 'fixed'", "base_lr: 0.1 lr_policy: 'step' stepsize: 7", "base_lr: 0.1 lr_policy: 'exp'",
                    "base_lr: 0.1 lr_policy: 'inv' power: 0.75", "base_lr: 0.1 lr_policy: 'inv' gamma: 0.5",
                    "base_lr: 0.1 lr_policy: 'multistep' gamma: 0.1",
                    "base_lr: 0.1 lr_policy: 'multistep' stepvalue: 4", "base_lr: 0.1 lr_policy: 'poly' max_iter: 60",
                    "base_lr: 0.1 lr_policy: 'sigmoid' stepsize: 30", "base_lr: 0.1 lr_policy: 'sigmoid' gamma: -0.2",
                    // Steps wait for those before them, and each for an iteration of its own.
                    "base_lr: 0.1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 0 stepvalue: 9 stepvalue: 9 "
                    "stepvalue: 3 stepvalue: 12 stepvalue: -5 stepvalue: 40"));

// Values worked out by hand.
TEST(LearningRate, KnownValues) {
  EXPECT_FLOAT_EQ(LearningRate(Parse("base_lr: 0.01 lr_policy: 'step' gamma: 0.1 stepsize: 100000"), 250000), 0.0001);
  const auto multistep = Parse("base_lr: 1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 10 stepvalue: 20");
  EXPECT_FLOAT_EQ(LearningRate(multistep, 9), 1);
  EXPECT_FLOAT_EQ(LearningRate(multistep, 10), 0.5);
  EXPECT_FLOAT_EQ(LearningRate(multistep, 1000), 0.25);
  EXPECT_FLOAT_EQ(LearningRate(Parse("base_lr: 2 lr_policy: 'sigmoid' gamma: 1 stepsize: 5"), 5), 1);
  EXPECT_FLOAT_EQ(LearningRate(Parse("base_lr: 2 lr_policy: 'poly' power: 2 max_iter: 10"), 5), 0.5);
}

TEST(LearningRate, WarmsUpInAStraightLine) {
  const auto rate = [](const std::string& text, int iter) {
    return LearningRate(Parse("base_lr: 0.5 lr_policy: 'step' gamma: 0.1 stepsize: 3 " + text), iter);
  };
  for (int iter = 0; iter < 8; ++iter) {
    EXPECT_FLOAT_EQ(rate("warmup_iter: 8 warmup_start_lr: 0.1", iter), (iter * 0.5 + (8 - iter) * 0.1) / 8);
    EXPECT_FLOAT_EQ(rate("warmup_iter: 8", iter), 0.5 * iter / 8);
  }
  for (int iter = 8; iter < 12; ++iter) {
    EXPECT_EQ(rate("warmup_iter: 8 warmup_start_lr: 0.1", iter), rate("", iter))
        << "the policy counts from the beginning";
  }
  const auto steps = Parse("base_lr: 1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 3 stepvalue: 5 warmup_iter: 6");
  EXPECT_EQ(LearningRateStep(steps, 5), 0) << "the policy is not asked yet";
  EXPECT_EQ(LearningRateStep(steps, 6), 1);
  EXPECT_EQ(LearningRateStep(steps, 7), 2) << "one step an iteration";
  LearningRates rates(Parse("base_lr: 1 lr_policy: 'fixed' warmup_iter: 4"));
  rates.Change(2, 8);
  EXPECT_EQ(rates.At(1), 0.25);
  EXPECT_EQ(rates.At(3), 6) << "to the base that was ordered";
}

TEST(LearningRate, PolyEndsAtMinLr) {
  const auto poly = Parse("base_lr: 2 min_lr: 1 lr_policy: 'poly' power: 2 max_iter: 10");
  EXPECT_FLOAT_EQ(LearningRate(poly, 0), 2);
  EXPECT_FLOAT_EQ(LearningRate(poly, 5), 1.25);
  EXPECT_FLOAT_EQ(LearningRate(poly, 10), 1);
}

struct BadCase {
  const char* text;
  const char* message;
};

TEST(LearningRatesTest, AnOrderedBaseHoldsFromItsIterationOn) {
  LearningRates rates(Parse("base_lr: 1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 10"));
  rates.Change(8, 4);
  rates.Change(12, 16);
  rates.Change(12, 32);
  EXPECT_EQ(rates.At(7), 1);
  EXPECT_EQ(rates.At(8), 4);
  EXPECT_EQ(rates.At(11), 2) << "the policy goes on";
  EXPECT_EQ(rates.At(12), 16) << "the later order";
  EXPECT_EQ(rates.ChangesUntil(11), (std::map<int64_t, float>{{8, 4}}));
  EXPECT_EQ(rates.ChangesUntil(12).size(), 2u);
  EXPECT_TRUE(rates.ChangesUntil(7).empty());
}

class BadPolicy : public testing::TestWithParam<BadCase> {};

TEST_P(BadPolicy, IsNamed) {
  const Status status = CheckLearningRate(Parse(GetParam().text));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    LearningRate, BadPolicy,
    testing::Values(BadCase{"base_lr: 1", "lr_policy: missing"},
                    BadCase{"lr_policy: 'steps'", "lr_policy: \"steps\" is unknown"},
                    BadCase{"lr_policy: 'step' gamma: 0.1", "\"step\" needs stepsize"},
                    BadCase{"lr_policy: 'step' gamma: 0.1 stepsize: 0", "stepsize: 0"},
                    BadCase{"lr_policy: 'inv' power: 1 gamma: -0.1", "gamma: -0.1; expected at least 0"},
                    BadCase{"lr_policy: 'fixed' warmup_iter: -1", "warmup_iter: -1"},
                    BadCase{"lr_policy: 'fixed' warmup_iter: 1 warmup_start_lr: -2", "warmup_start_lr: -2"},
                    BadCase{"lr_policy: 'fixed' warmup_start_lr: 1", "needs warmup_iter"},
                    BadCase{"base_lr: 1 lr_policy: 'fixed' min_lr: 0.1", "\"fixed\" has none"},
                    BadCase{"base_lr: 1 lr_policy: 'poly' power: 1 max_iter: 5 min_lr: 2", "min_lr: 2; expected"}));

}  // namespace
}  // namespace hp
