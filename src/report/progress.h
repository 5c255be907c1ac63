#pragma once

#include "base/mutex.h"
#include "base/thread.h"

#include <functional>

namespace hp {

class Reporter;

/// One line at the bottom of a terminal: iterations done, images/s and the time left. Shown on standard error while it
/// exists, from what the node's reporter knows. Where standard error is no terminal it does nothing, not even start its
/// thread, "progress bar".
class ProgressBar {
 public:
  /// @param reporter called twice a second, on the bar's thread. Null, or a reporter without a complete iteration:
  /// nothing is shown. What it returns must live until the bar is destroyed.
  explicit ProgressBar(std::function<const Reporter*()> reporter);
  /// Joins the thread, at once, and clears the line.
  ~ProgressBar();

 private:
  void Run();

  const std::function<const Reporter*()> reporter_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
