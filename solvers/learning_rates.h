#pragma once

#include "base/mutex.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <map>

namespace hp {

/// The learning rate of each update: the solver's, with the base rates that users ordered while the job trained
/// (hpctl lr). An order changes base_lr from an iteration on; lr_policy goes on counting as before. So the rates are a
/// function of the solver file and of the list of changes, which snapshots save. Every node has the same list by the
/// time it computes the update that a change begins with. One per node. Any thread.
class LearningRates {
 public:
  /// @param solver has passed CheckSolver.
  explicit LearningRates(const caffe::SolverParameter& solver) : solver_(solver) {}

  /// From update `clock` on base_lr is `base_lr`, which must be finite and above 0. Of two changes at one update the
  /// later call counts. Before that update is computed.
  void Change(int64_t clock, float base_lr) HP_EXCLUDES(mutex_);
  /// The rate of update `clock`, without lr_mult (LearningRate).
  float At(int64_t clock) const HP_EXCLUDES(mutex_);
  /// The changes that begin with update `clock` or earlier ones, by their update.
  std::map<int64_t, float> ChangesUntil(int64_t clock) const HP_EXCLUDES(mutex_);

 private:
  const caffe::SolverParameter solver_;
  mutable Mutex mutex_;
  std::map<int64_t, float> changes_ HP_GUARDED_BY(mutex_);  // base_lr, by the first update that has it
};

}  // namespace hp
