#pragma once

#include "base/clock.h"
#include "scheduler/pipeline/pipeline.h"

#include <cstdint>
#include <string>

namespace hp {

/// Logs how long the executor of a node that reads records had nothing to compute because records or labels were
/// missing (Pipeline::input_wait_ns): every `display` iterations if that took at least 1% of the time since the last
/// look, and at the end in any case. It tells whether more reader threads would help. Owned by the node.
class InputWaitLog {
 public:
  /// Time counts from here on.
  /// @param node its name, for the line. @param pipeline,clock must outlive it.
  /// @param display iterations between two looks, as the solver's; 0: only at the end.
  InputWaitLog(std::string node, const Pipeline* pipeline, const Clock* clock, int64_t display);
  /// The updates of `clock` are done. One thread: that of Executor::Options::after_task.
  void OnClockDone(int64_t clock);
  /// Logs the whole time since the constructor. Any thread.
  void Finish() const;

 private:
  /// A moment, and how long the executor had waited until then.
  struct Mark {
    int64_t now_ns = 0, waited_ns = 0;
  };
  Mark Now() const { return {clock_->NowNs(), pipeline_->input_wait_ns()}; }
  /// @param least fraction of the time from `from` to `to`: nothing is logged for a shorter wait.
  void Print(const Mark& from, const Mark& to, double least) const;

  const std::string node_;
  const Pipeline* const pipeline_;
  const Clock* const clock_;
  const int64_t display_;
  const Mark start_;
  Mark last_;  // the last look
};

}  // namespace hp
