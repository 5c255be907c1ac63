#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/control/meeting.h"
#include "scheduler/control/watch.h"

#include <functional>
#include <string>

namespace hp {

/// Why a node's work ends, and that the others hear of it before the node goes. Any thread, unless said.
class Ending {
 public:
  struct Options {
    std::string node;                          ///< its name, for the log
    std::function<void(const Status&)> leave;  ///< as NodeOptions::leave; may be null
    std::function<void(const Status&)> abort;  ///< wakes whatever of the node waits for others
    std::function<std::string()> describe;     ///< what the pipeline waits for
  };
  explicit Ending(Options options) : options_(std::move(options)) {}

  /// Before the first of the others. Both must outlive the last.
  void Begin(Meeting* meeting, Watch* watch) {
    meeting_ = meeting;
    watch_ = watch;
  }

  /// This node can't go on.
  void Fail(const Status& status) HP_EXCLUDES(mutex_);
  /// The watch says that the job is over for us: another node is lost, or the others know of our own failure.
  void OnLost(const Status& status, bool said) HP_EXCLUDES(mutex_);
  /// A verdict ends the job, on all nodes alike.
  void OnStopped(const Status& status) HP_EXCLUDES(mutex_);
  /// The executor has ended. @param status why; ok: `finished` says whether all work is done.
  void OnExecuted(const Status& status, bool finished) HP_EXCLUDES(mutex_);

  /// Main thread: until all work is done, or never will be. @return why not.
  Status WaitForWork() HP_EXCLUDES(mutex_);
  /// Main thread, after a failure: until the others know of it.
  void WaitForLeave() HP_EXCLUDES(mutex_);
  /// Ok: this node has not failed.
  Status failure() HP_EXCLUDES(mutex_);

 private:
  void Leave() HP_EXCLUDES(mutex_);

  const Options options_;
  Meeting* meeting_ = nullptr;
  Watch* watch_ = nullptr;
  Mutex mutex_;
  CondVar changed_;
  bool watch_over_ HP_GUARDED_BY(mutex_) = false, left_ HP_GUARDED_BY(mutex_) = false;
  bool finished_ HP_GUARDED_BY(mutex_) = false;
  Status failure_ HP_GUARDED_BY(mutex_);
  Status stopped_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
