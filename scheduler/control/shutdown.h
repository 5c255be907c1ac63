#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/control/failure_detector.h"
#include "scheduler/control/job_bootstrap.h"

#include <functional>
#include <string>

namespace hp {

/// Ends a node's part of the job: keeps the first reason, tells the other nodes through the failure detector, wakes
/// what waits for them, and lets the process go only when the others had time to hear. Any thread, unless said
/// otherwise.
///
/// A failure has one of three sources: this node itself (Fail), another node (OnLost), or a verdict that stops all
/// nodes alike (OnStopped). The first one decides the exit status; later ones follow from it and are dropped.
class Shutdown {
 public:
  struct Options {
    std::string node;                          ///< its name, for the log
    std::function<void(const Status&)> leave;  ///< as NodeOptions::leave; may be null
    std::function<void(const Status&)> abort;  ///< wakes whatever of the node waits for others
    std::function<std::string()> describe;     ///< what the pipeline waits for
  };
  explicit Shutdown(Options options) : options_(std::move(options)) {}

  /// Must be called before any other method. Both must outlive this object's last call.
  void Begin(JobBootstrap* bootstrap, FailureDetector* detector) {
    bootstrap_ = bootstrap;
    failure_detector_ = detector;
  }

  /// This node can't continue; logs `status` and tells the others.
  void Fail(const Status& status) HP_EXCLUDES(mutex_);
  /// The failure detector's decision: another node is lost, or the others now know of our own failure.
  /// @param said the lost node reported its failure itself.
  void OnLost(const Status& status, bool said) HP_EXCLUDES(mutex_);
  /// A verdict ends the job, on all nodes alike.
  void OnStopped(const Status& status) HP_EXCLUDES(mutex_);
  /// The executor has ended. @param status why; ok: `finished` says whether all work is done.
  void OnExecuted(const Status& status, bool finished) HP_EXCLUDES(mutex_);

  /// Main thread: blocks until all work is done or can't be any more. @return ok, or the reason.
  Status WaitForWork() HP_EXCLUDES(mutex_);
  /// Main thread, after a failure: blocks until the others know of it, at most 3 s.
  void WaitForLeave() HP_EXCLUDES(mutex_);
  /// The first failure; ok while there is none.
  Status failure() HP_EXCLUDES(mutex_);

 private:
  void Leave() HP_EXCLUDES(mutex_);

  const Options options_;
  JobBootstrap* bootstrap_ = nullptr;
  FailureDetector* failure_detector_ = nullptr;
  Mutex mutex_;  ///< never held while bootstrap, detector or options are called
  CondVar changed_;
  bool detector_done_ HP_GUARDED_BY(mutex_) = false, left_ HP_GUARDED_BY(mutex_) = false;
  bool finished_ HP_GUARDED_BY(mutex_) = false;
  Status failure_ HP_GUARDED_BY(mutex_);
  Status stopped_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
