#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "proto/control.pb.h"
#include "report/curve_file.h"
#include "report/event_file.h"
#include "scheduler/plan/job_plan.h"
#include "solvers/learning_rates.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Adds up the losses and accuracies of all micro-batches and logs the lines that Caffe's solver logs, in the form that
/// its parse_log.py reads. Micro-batches may arrive in any order: sums go in the order of ids and lines in the order of
/// clocks, so the same job logs the same numbers each time. One in a job, on node JobPlan::reporter, owned by it; other
/// nodes send it their values. Any thread.
///
/// A clock is printed once all its micro-batches are there, its test in front of its training:
///   "Iteration 100, Testing net (#0)", "    Test net output #0: ..."      if the clock has a test; between the two
///   "Test
///                                                                        loss: ..." with test_compute_loss
///   "Iteration 100 (... iter/s, ...), loss = ...", "    Train net output #0: ...", "Iteration 100, lr = ..."
///                                                                        every `display` iterations
///   "MultiStep Status: Iteration 100, step = 1"                          where a multistep policy passes a stepvalue
class Reporter {
 public:
  /// Takes the training loss of a clock: the sum of loss_weight x output, as mean over iter_size, not smoothed by
  /// average_loss. Once for every clock, in their order, one call at a time. Under no lock, on the thread of an Add,
  /// which may be the transport's progress thread: must be quick.
  using LossSink = std::function<void(int64_t clock, double loss)>;

  /// @param job must outlive it. @param clock measures iter/s; must outlive it.
  /// @param rates of the job; must outlive it. @param start_clock first iteration of this run.
  /// @param on_loss null: nobody wants the losses. @param curves takes a row for each display and each test of the
  /// first test net, `events` the points of each display and test; must outlive it; null: nobody wants them.
  Reporter(const JobPlan& job, const LearningRates* rates, const Clock* clock, int64_t start_clock,
           LossSink on_loss = nullptr, CurveFile* curves = nullptr, EventFile* events = nullptr);

  /// Adds the statistics of micro-batch `id`, as Compute::StatisticsSink has them, and prints what has become complete.
  /// Once for each id and stage of JobPlan::ReportingStages.
  /// @param stage of the node that computed them.
  /// @param values one for each output of that node's NodeNet: shares of the whole batch's value.
  void Add(MsgId id, int stage, const std::vector<float>& values) HP_EXCLUDES(mutex_);
  /// Iterations whose training losses are complete, counted from iteration 0: start_clock() at first.
  int64_t clocks_done() const HP_EXCLUDES(mutex_);
  /// Training samples of these iterations, counted from start_clock().
  int64_t samples_done() const;
  int64_t start_clock() const { return start_clock_; }
  /// The loss of the latest iteration and the outputs of the latest tests; without fields that are not known yet. Where
  /// there are several tests, "#1 accuracy" is that of the second.
  LearningStatus latest() const HP_EXCLUDES(mutex_);
  /// The iteration at which the job ends.
  int64_t max_iter() const { return job_.schedule().shape().max_iter; }

 private:
  using Values = std::map<MsgId, std::map<int, std::vector<float>>>;  // by id, then stage

  /// Whether all stages have reported an id.
  bool Complete(MsgId id) const HP_REQUIRES(mutex_);
  /// The ids of iteration_'s tests, or if they are done of its training.
  void TakeDue() HP_REQUIRES(mutex_);
  /// Whether all of them are reported. Looks at each once, however often it is asked: there may be 100,000.
  bool DueIsComplete() HP_REQUIRES(mutex_);
  /// Sums over `ids`, all of `phase`, by output of its whole net, and forgets their values.
  std::vector<double> Sum(const std::vector<MsgId>& ids, Phase phase) HP_REQUIRES(mutex_);
  /// Prints tests and iterations from iteration_ on, as far as they are complete.
  void PrintReady() HP_REQUIRES(mutex_);
  /// The tests of iteration_, one behind the other.
  void PrintTests() HP_REQUIRES(mutex_);
  void PrintTest(int test, const std::vector<MsgId>& ids) HP_REQUIRES(mutex_);
  void PrintTraining() HP_REQUIRES(mutex_);
  void PrintStep() HP_REQUIRES(mutex_);
  /// A line of the log, and a row of the curves.
  void Display(double loss, const std::vector<double>& outputs) HP_REQUIRES(mutex_);
  /// The row of a test, if its net has an accuracy.
  void AddTestToCurves(const std::vector<double>& outputs) HP_REQUIRES(mutex_);
  /// The row of a display, after `seconds`.
  void AddToCurves(double seconds, double loss, const std::vector<double>& outputs) HP_REQUIRES(mutex_);
  /// Calls on_loss for what is in losses_, unless another thread does so already.
  void TellLosses() HP_EXCLUDES(mutex_);

  const JobPlan& job_;
  const LearningRates* const rates_;
  const Clock* const clock_;
  const int64_t start_clock_;
  const LossSink on_loss_;
  CurveFile* const curves_;               // may be null
  EventFile* const events_;               // may be null
  std::vector<size_t> reporting_stages_;  // by Phase

  mutable Mutex mutex_;
  Values values_ HP_GUARDED_BY(mutex_);
  int64_t iteration_ HP_GUARDED_BY(mutex_) = 0;   // the one whose losses are printed next
  bool test_done_ HP_GUARDED_BY(mutex_) = false;  // iteration_'s test is printed, or it has none
  std::vector<MsgId> due_ HP_GUARDED_BY(mutex_);  // whose values are printed next
  size_t complete_ HP_GUARDED_BY(mutex_) = 0;     // of them the first ones, which are known to be reported
  LearningStatus latest_ HP_GUARDED_BY(mutex_);
  std::deque<double> recent_ HP_GUARDED_BY(mutex_);                      // losses of the last average_loss iterations
  std::deque<std::pair<int64_t, double>> losses_ HP_GUARDED_BY(mutex_);  // clocks and losses for on_loss_
  bool telling_ HP_GUARDED_BY(mutex_) = false;                           // a thread is in TellLosses
  int64_t displayed_iteration_ HP_GUARDED_BY(mutex_) = 0, displayed_ns_ HP_GUARDED_BY(mutex_) = 0;  // the last display
  int64_t curve_iteration_ HP_GUARDED_BY(mutex_) = 0;  // the first that no row of the curves counts
};

}  // namespace hp
