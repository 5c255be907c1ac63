#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "scheduler/plan/job_plan.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hp {

/// Adds up the losses and accuracies of all micro-batches, in the order of ids, and prints Caffe's lines, in the order
/// of clocks whatever the order of arrival. Lives on the node that holds the loss. Any thread.
class Reporter {
 public:
  /// Called for every clock with the summed training loss (before smoothing).
  using LossSink = std::function<void(int64_t clock, double loss)>;

  Reporter(const JobPlan& job, const Clock* clock, int64_t start_clock, LossSink on_loss = nullptr);

  /// What `stage`'s node for `id` computed: one value for each output of its NodeNet.
  void Add(MsgId id, int stage, const std::vector<float>& values) HP_EXCLUDES(mutex_);
  int64_t clocks_done() const HP_EXCLUDES(mutex_);
  /// Samples of all batches of clocks that are done, since the start.
  int64_t samples_done() const;
  int64_t start_clock() const { return start_clock_; }
  int64_t max_iter() const { return job_.schedule().shape().max_iter; }

 private:
  using Values = std::map<MsgId, std::map<int, std::vector<float>>>;  // by id, then stage

  bool Complete(const std::vector<MsgId>& ids, bool train) const HP_REQUIRES(mutex_);
  std::vector<double> Sum(const std::vector<MsgId>& ids, bool train) HP_REQUIRES(mutex_);
  void PrintReady() HP_REQUIRES(mutex_);
  void PrintTest() HP_REQUIRES(mutex_);
  void PrintTraining() HP_REQUIRES(mutex_);

  const JobPlan& job_;
  const Clock* const clock_source_;
  const int64_t start_clock_;
  const LossSink on_loss_;
  std::map<bool, size_t> stages_with_outputs_;  // by train

  mutable Mutex mutex_;
  Values values_ HP_GUARDED_BY(mutex_);
  int64_t clock_ HP_GUARDED_BY(mutex_) = 0;
  bool test_done_ HP_GUARDED_BY(mutex_) = false;
  std::deque<double> recent_ HP_GUARDED_BY(mutex_);  // losses of the last average_loss iterations
  int64_t displayed_clock_ HP_GUARDED_BY(mutex_) = 0, displayed_ns_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace hp
