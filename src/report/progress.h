#pragma once

#include "base/mutex.h"
#include "base/thread.h"

#include <functional>

namespace hp {

class Reporter;

/// One line at the bottom of a terminal: iterations done, images/s and the time left. Shown on standard error while it
/// exists, from what the node's reporter knows; nothing where standard error is not a terminal.
class ProgressBar {
 public:
  /// @param reporter asked twice a second, on a thread of the bar's own; may return null: nothing is shown then.
  explicit ProgressBar(std::function<const Reporter*()> reporter);
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
