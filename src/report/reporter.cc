// Values wait in values_ until all micro-batches of a clock, of all stages with outputs, are there; then they are
// added in the order of ids, so that the sum's bits do not depend on the order of arrival. Each value is a share that
// its op has already divided by the whole batch, so sums are divided by iter_size or test_iter alone. The format of
// the lines is that of Caffe's src/caffe/solver.cpp (Solver::Step, Solver::Test).
#include "report/reporter.h"

#include "base/format.h"
#include "scheduler/plan/main_accuracy.h"
#include "solvers/lr_policy.h"

#include "glog/logging.h"

#include <numeric>

namespace hp {
namespace {

/// @param values one for each output.
void PrintOutputs(const char* phase, const std::vector<WholeOutput>& outputs, const std::vector<double>& values) {
  int number = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].named) continue;
    std::string weight;
    if (outputs[i].loss_weight != 0) {
      weight = Format(" (* %g = %g loss)", outputs[i].loss_weight, outputs[i].loss_weight * values[i]);
    }
    LOG(INFO) << "    " << phase << " net output #" << number++ << ": " << outputs[i].blob << " = "
              << Format("%g", values[i]) << weight;
  }
}

/// As points of curves "PHASE/BLOB".
void AddPoints(const std::string& phase, const std::vector<WholeOutput>& outputs, const std::vector<double>& values,
               std::vector<EventFile::Point>* points) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].named) points->emplace_back(phase + "/" + outputs[i].blob, values[i]);
  }
}

/// An output's part in the loss. One that has none may be NaN.
double Weighted(const WholeOutput& output, double value) {
  return output.loss_weight == 0 ? 0 : output.loss_weight * value;
}

}  // namespace

Reporter::Reporter(const JobPlan& job, const LearningRates* rates, const Clock* clock, int64_t start_clock,
                   LossSink on_loss, CurveFile* curves, EventFile* events)
    : job_(job),
      rates_(rates),
      clock_(clock),
      start_clock_(start_clock),
      on_loss_(std::move(on_loss)),
      curves_(curves),
      events_(events) {
  for (const Phase phase : job.phases()) reporting_stages_.push_back(job.ReportingStages(phase).size());
  MutexLock lock(&mutex_);
  iteration_ = displayed_iteration_ = curve_iteration_ = start_clock;
  displayed_ns_ = clock->NowNs();
  TakeDue();
}

void Reporter::Add(MsgId id, int stage, const std::vector<float>& values) {
  {
    MutexLock lock(&mutex_);
    values_[id][stage] = values;
    PrintReady();
  }
  TellLosses();
}

void Reporter::TellLosses() {
  for (bool first = true;; first = false) {
    std::pair<int64_t, double> next;
    {
      MutexLock lock(&mutex_);
      if (first && telling_) return;
      telling_ = !losses_.empty();
      if (!telling_) return;
      next = losses_.front();
      losses_.pop_front();
    }
    on_loss_(next.first, next.second);
  }
}

int64_t Reporter::clocks_done() const {
  MutexLock lock(&mutex_);
  return iteration_;
}

LearningStatus Reporter::latest() const {
  MutexLock lock(&mutex_);
  return latest_;
}

int64_t Reporter::samples_done() const { return (clocks_done() - start_clock_) * job_.schedule().update_rows(); }

bool Reporter::Complete(MsgId id) const {
  const auto found = values_.find(id);
  const size_t stages = reporting_stages_[job_.schedule().PhaseOf(id).index()];
  if (!id.train() && stages == 0) return true;  // a test that has nothing to say
  return found != values_.end() && found->second.size() >= stages;
}

void Reporter::TakeDue() {
  due_ = test_done_ ? job_.schedule().TrainIds(iteration_) : job_.schedule().TestIds(iteration_);
  complete_ = 0;
}

bool Reporter::DueIsComplete() {
  while (complete_ < due_.size() && Complete(due_[complete_])) ++complete_;
  return complete_ == due_.size();
}

void Reporter::PrintReady() {
  while (DueIsComplete()) {
    if (!test_done_) {
      if (!due_.empty()) PrintTests();
      test_done_ = true;
    } else {
      if (due_.empty()) return;  // the training has ended
      PrintTraining();
      ++iteration_;
      test_done_ = false;
    }
    TakeDue();
  }
}

std::vector<double> Reporter::Sum(const std::vector<MsgId>& ids, Phase phase) {
  const std::vector<WholeOutput>& outputs = job_.outputs(phase);
  std::vector<double> sums(outputs.size(), 0);
  for (MsgId id : ids) {
    for (size_t i = 0; i < outputs.size(); ++i) sums[i] += values_[id][outputs[i].stage][outputs[i].index];
    values_.erase(id);
  }
  return sums;
}

void Reporter::PrintTests() {
  latest_.set_test_iteration(iteration_);
  latest_.clear_test_output();
  const Schedule& schedule = job_.schedule();
  std::vector<std::vector<MsgId>> ids(schedule.tests());
  for (const MsgId id : schedule.TestIds(iteration_)) ids[schedule.PhaseOf(id).test()].push_back(id);
  for (int test = 0; test < schedule.tests(); ++test) PrintTest(test, ids[test]);
}

void Reporter::PrintTest(int test, const std::vector<MsgId>& ids) {
  LOG(INFO) << "Iteration " << iteration_ << ", Testing net (#" << test << ")";
  const std::vector<double> sums = Sum(ids, Phase::OfTest(test));
  const std::vector<WholeOutput>& outputs = job_.outputs(Phase::OfTest(test));
  std::vector<double> means;
  for (double sum : sums) means.push_back(sum / static_cast<double>(job_.solver().test_iter(test)));
  if (job_.solver().test_compute_loss()) {
    double loss = 0;
    for (size_t i = 0; i < outputs.size(); ++i) loss += Weighted(outputs[i], means[i]);
    LOG(INFO) << "Test loss: " << Format("%g", loss);
  }
  PrintOutputs("Test", outputs, means);
  if (test == 0) AddTestToCurves(means);
  if (events_ != nullptr) {
    std::vector<EventFile::Point> points;
    AddPoints(test == 0 ? "test" : "test" + std::to_string(test), outputs, means, &points);
    if (!points.empty()) events_->Add(iteration_, points);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].named) continue;
    TestOutput* const latest = latest_.add_test_output();
    latest->set_blob(job_.schedule().tests() > 1 ? Format("#%d %s", test, outputs[i].blob.c_str()) : outputs[i].blob);
    latest->set_value(means[i]);
    latest->set_loss(outputs[i].loss_weight != 0);
  }
}

void Reporter::PrintTraining() {
  const caffe::SolverParameter& solver = job_.solver();
  std::vector<double> sums = Sum(job_.schedule().TrainIds(iteration_), caffe::TRAIN);
  const std::vector<WholeOutput>& outputs = job_.outputs(caffe::TRAIN);
  double loss = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    sums[i] /= static_cast<double>(solver.iter_size());
    loss += Weighted(outputs[i], sums[i]);
  }
  if (on_loss_) losses_.emplace_back(iteration_, loss);
  recent_.push_back(loss);
  if (static_cast<int>(recent_.size()) > std::max(1, solver.average_loss())) recent_.pop_front();
  const double smoothed = std::accumulate(recent_.begin(), recent_.end(), 0.0) / static_cast<double>(recent_.size());
  latest_.set_iteration(iteration_);
  latest_.set_loss(smoothed);
  latest_.set_rate(rates_->At(iteration_));
  if (solver.display() > 0 && iteration_ % solver.display() == 0) {
    Display(smoothed, sums);
  } else {
    PrintStep();
  }
}

// Source: Caffe, src/caffe/solvers/sgd_solver.cpp, SGDSolver::GetLearningRate.
void Reporter::PrintStep() {
  const caffe::SolverParameter& solver = job_.solver();
  if (solver.lr_policy() != "multistep" || iteration_ == 0) return;
  const int step = LearningRateStep(solver, static_cast<int>(iteration_));
  if (step == LearningRateStep(solver, static_cast<int>(iteration_) - 1)) return;
  LOG(INFO) << "MultiStep Status: Iteration " << iteration_ << ", step = " << step;
}

void Reporter::Display(double loss, const std::vector<double>& values) {
  const std::vector<WholeOutput>& outputs = job_.outputs(caffe::TRAIN);
  const int64_t now = clock_->NowNs();
  const double seconds = static_cast<double>(now - displayed_ns_) / kNsPerSecond;
  const int64_t iterations = iteration_ - displayed_iteration_;
  LOG(INFO) << "Iteration " << iteration_
            << Format(" (%g iter/s, %gs/%d iters), loss = %g", seconds > 0 ? iterations / seconds : 0, seconds,
                      job_.solver().display(), loss);
  PrintOutputs("Train", outputs, values);
  PrintStep();
  LOG(INFO) << "Iteration " << iteration_ << ", lr = " << Format("%g", rates_->At(iteration_));
  AddToCurves(seconds, loss, values);
  displayed_iteration_ = iteration_;
  displayed_ns_ = now;
}

void Reporter::AddTestToCurves(const std::vector<double>& values) {
  const int accuracy = MainAccuracy(job_, Phase::OfTest(0));
  if (curves_ == nullptr || accuracy < 0) return;
  const double seconds = static_cast<double>(clock_->NowNs() - displayed_ns_) / kNsPerSecond;
  curves_->Add({.iteration = iteration_, .seconds = seconds, .test_accuracy = values[accuracy]});
}

void Reporter::AddToCurves(double seconds, double loss, const std::vector<double>& values) {
  const int accuracy = MainAccuracy(job_, caffe::TRAIN);
  // The first display of a run is of its first iteration, and Caffe's line counts none for it.
  const int64_t samples = (iteration_ + 1 - curve_iteration_) * job_.schedule().update_rows();
  const double rate = rates_->At(iteration_);
  if (curves_ != nullptr) {
    CurveRow row{.iteration = iteration_, .seconds = seconds, .samples = samples, .loss = loss, .rate = rate};
    if (accuracy >= 0) row.accuracy = values[accuracy];
    curves_->Add(row);
  }
  if (events_ != nullptr) {
    std::vector<EventFile::Point> points = {{"loss", loss}, {"learning_rate", rate}};
    if (seconds > 0) points.emplace_back("samples_per_s", static_cast<double>(samples) / seconds);
    AddPoints("train", job_.outputs(caffe::TRAIN), values, &points);
    events_->Add(iteration_, points);
  }
  curve_iteration_ = iteration_ + 1;
}

}  // namespace hp
