#pragma once

#include "base/clock.h"
#include "scheduler/pipeline/pipeline.h"

#include <cstdint>
#include <string>

namespace hp {

/// Tells how long a node that reads records has waited for them: where it costs more than a hundredth of the time since
/// the last display, and at the end in any case. Executor thread, and whoever waits for its end.
class InputWaitLog {
 public:
  /// @param display iterations between two looks; 0: only at the end.
  InputWaitLog(std::string node, const Pipeline* pipeline, const Clock* clock, int64_t display);
  /// The update of `clock` is done.
  void OnClockDone(int64_t clock);
  void Finish() const;

 private:
  struct Mark {
    int64_t now_ns = 0, waited_ns = 0;
  };
  Mark Now() const { return {clock_->NowNs(), pipeline_->input_wait_ns()}; }
  void Print(const Mark& from, const Mark& to, double least) const;

  const std::string node_;
  const Pipeline* const pipeline_;
  const Clock* const clock_;
  const int64_t display_;
  const Mark start_;
  Mark last_;
};

}  // namespace hp
