#include "report/reporter.h"

#include "test/support/log_lines.h"
#include "test/support/small_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr char kSolver[] = "max_iter: 300 lr_policy: \"fixed\" base_lr: 0.1";

class ReporterTest : public testing::Test {
 protected:
  ReporterTest() {
    auto job = PlanOf(table_, Parse<caffe::NetParameter>(kJobNet), Parse<caffe::SolverParameter>(kSolver));
    EXPECT_TRUE(job.ok()) << job.status();
    job_ = *std::move(job);
  }
  /// Of all micro-batches of a clock: their share of a loss that is the clock's number.
  std::vector<std::pair<MsgId, float>> ValuesOf(int64_t clock) const {
    std::vector<std::pair<MsgId, float>> values;
    const std::vector<MsgId> ids = job_->schedule().TrainIds(clock);
    for (const MsgId id : ids) values.emplace_back(id, static_cast<float>(clock) / static_cast<float>(ids.size()));
    return values;
  }
  void Add(Reporter* reporter, const std::pair<MsgId, float>& value) const {
    reporter->Add(value.first, job_->outputs(caffe::TRAIN)[0].stage, {value.second});
  }

  const RoutingTable table_ = MakeTable(kTable);
  std::unique_ptr<JobPlan> job_;
};

TEST_F(ReporterTest, WhoTakesALossMayAskTheReporter) {
  const Reporter* asked = nullptr;
  std::vector<int64_t> done;
  const LearningRates rates(job_->solver());
  Reporter reporter(*job_, &rates, Clock::Real(), 0, [&](int64_t, double) { done.push_back(asked->clocks_done()); });
  asked = &reporter;
  for (int64_t clock : {0, 1}) {
    for (const auto& value : ValuesOf(clock)) Add(&reporter, value);
  }
  EXPECT_EQ(done, (std::vector<int64_t>{1, 2}));
}

TEST_F(ReporterTest, LossesComeInOrderWhoeverAddsTheLastValue) {
  std::vector<std::pair<int64_t, double>> losses;  // no lock: one call at a time
  const LearningRates rates(job_->solver());
  Reporter reporter(*job_, &rates, Clock::Real(), 0,
                    [&](int64_t clock, double loss) { losses.emplace_back(clock, loss); });
  std::vector<std::pair<MsgId, float>> values;
  for (int64_t clock = 0; clock < 300; ++clock) {
    for (const auto& value : ValuesOf(clock)) values.push_back(value);
  }
  std::shuffle(values.begin(), values.end(), std::mt19937(1));
  std::vector<std::thread> threads;
  constexpr size_t kThreads = 4;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = thread; i < values.size(); i += kThreads) Add(&reporter, values[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(losses.size(), 300u);
  for (int64_t clock = 0; clock < 300; ++clock) {
    EXPECT_EQ(losses[clock].first, clock);
    EXPECT_FLOAT_EQ(static_cast<float>(losses[clock].second), static_cast<float>(clock));
  }
}

#ifdef HP_SANITIZED
constexpr int kMany = 5000;  // else it takes a minute, and time is measured without sanitizers
#else
constexpr int kMany = 200000;
#endif

/// Each value costs the same, however many an update has: by all of them for each it would be hours.
TEST_F(ReporterTest, ManyMicroBatchesOfAnUpdate) {
  auto job = PlanOf(table_, Parse<caffe::NetParameter>(kJobNet),
                    Parse<caffe::SolverParameter>(std::string(kSolver) + " iter_size: " + std::to_string(kMany)));
  ASSERT_TRUE(job.ok()) << job.status();
  const LearningRates rates((*job)->solver());
  std::vector<double> losses;
  Reporter reporter(**job, &rates, Clock::Real(), 0, [&](int64_t, double loss) { losses.push_back(loss); });
  const int stage = (*job)->outputs(caffe::TRAIN)[0].stage;
  for (const int64_t clock : {0, 1}) {
    std::vector<MsgId> ids = (*job)->schedule().TrainIds(clock);
    ASSERT_GE(std::ssize(ids), kMany);
    if (clock == 1) std::reverse(ids.begin(), ids.end());
    for (const MsgId id : ids) {
      EXPECT_EQ(std::ssize(losses), clock);
      reporter.Add(id, stage, {1.0f});
    }
    ASSERT_EQ(std::ssize(losses), clock + 1);
    EXPECT_NEAR(losses.back(), static_cast<double>(ids.size()) / kMany, 1e-6);
  }
}

/// As Caffe smooths them: the mean of the last average_loss losses.
TEST_F(ReporterTest, ShownLossesAreMeansOfTheLastOnes) {
  auto job = PlanOf(table_, Parse<caffe::NetParameter>(kJobNet),
                    Parse<caffe::SolverParameter>(std::string(kSolver) + " average_loss: 3 display: 1"));
  ASSERT_TRUE(job.ok()) << job.status();
  test::LogLines lines;
  const LearningRates rates((*job)->solver());
  Reporter reporter(**job, &rates, Clock::Real(), 0);
  for (int64_t clock = 0; clock < 5; ++clock) {
    for (const auto& value : ValuesOf(clock * clock)) {
      const MsgId id = MsgId::Make(clock, true, value.first.micro(), value.first.replica());
      Add(&reporter, {id, value.second});
    }
  }
  std::vector<std::string> shown;
  for (const std::string& line : lines.With(", loss = ")) shown.push_back(line.substr(line.find(", loss = ") + 9));
  EXPECT_EQ(shown, (std::vector<std::string>{"0", "0.5", "1.66667", "4.66667", "9.66667"}));
}

}  // namespace
}  // namespace hp
