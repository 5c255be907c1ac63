#pragma once

#include "base/mutex.h"
#include "base/thread.h"

namespace hp {

class Node;

/// One line at the bottom of a terminal: iterations done, images/s and the time left. Shown on standard error while it
/// exists, by the node that holds the loss; nothing where standard error is not a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(const Node* node);
  ~ProgressBar();

 private:
  void Run(const Node& node);

  Mutex mutex_;
  CondVar changed_;
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
