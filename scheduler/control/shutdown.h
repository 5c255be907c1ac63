#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/control/failure_detector.h"
#include "scheduler/control/job_bootstrap.h"

#include <functional>
#include <string>

namespace hp {

/// Ends a node's part of the job: keeps the first reason, tells the other nodes through the failure detector, wakes
/// what waits for them, and lets the process exit only when the others had time to hear the reason. Any thread, unless
/// said otherwise.
///
/// A failure has one of three sources: this node itself (Fail), another node (OnLost), or a verdict that stops all
/// nodes alike (OnStopped). The first one decides the exit status; later ones follow from it and are dropped.
class Shutdown {
 public:
  struct Options {
    std::string node;                          ///< the node's name, for the log
    std::function<void(const Status&)> leave;  ///< as NodeOptions::leave: may end the process; may be null
    std::function<void(const Status&)> abort;  ///< ends all waits for other nodes; may be called twice
    std::function<std::string()> describe;     ///< what the node waits for, logged when nothing moves
  };
  explicit Shutdown(Options options) : options_(std::move(options)) {}

  /// Must be called before any other method. Both must outlive the last call of this object's methods.
  void Begin(JobBootstrap* bootstrap, FailureDetector* detector) {
    bootstrap_ = bootstrap;
    failure_detector_ = detector;
  }

  /// This node can't continue: logs `status`, ends JobBootstrap::Wait and tells the others. Never waits for them;
  /// OnLost follows when they had time to hear it. No effect after another failure.
  void Fail(const Status& status) HP_EXCLUDES(mutex_);
  /// The failure detector's decision (its LostSink): another node is lost, or the others know of this node's own
  /// failure. Calls `leave`, then `abort`; not while the bootstrap still tells other nodes why the job can't start.
  /// @param said whether the lost node reported its failure itself.
  void OnLost(const Status& status, bool said) HP_EXCLUDES(mutex_);
  /// A verdict ends the job on all nodes alike; WaitForWork returns its reason.
  void OnStopped(const Status& status) HP_EXCLUDES(mutex_);
  /// The executor has ended.
  /// @param status kUnavailable or kCancelled: it needed a node that is lost, which the failure detector reports;
  /// another error is this node's own failure.
  /// @param finished whether all work is done.
  void OnExecuted(const Status& status, bool finished) HP_EXCLUDES(mutex_);

  /// Main thread: blocks until all work is done, the job has failed or a verdict stops it. Logs every 15 s what the
  /// node waits for if that does not change.
  /// @return ok: all work is done; else the reason of the verdict, or the first failure. For kNumeric the BYEs have
  /// been exchanged (2 s at most) and `leave` was called.
  Status WaitForWork() HP_EXCLUDES(mutex_);
  /// Main thread, after a failure: blocks until the others had time to hear of it, at most 3 s. Returns at once without
  /// a failure.
  void WaitForLeave() HP_EXCLUDES(mutex_);
  /// The first failure of this or another node; ok while there is none. A verdict's stop is none.
  Status failure() HP_EXCLUDES(mutex_);
  /// Main thread, when the failure detector has found a loss: the failure that OnLost is about to tell, or has told.
  /// Ok: none came within 3 s.
  Status AwaitFailure() HP_EXCLUDES(mutex_);

 private:
  void Leave() HP_EXCLUDES(mutex_);

  const Options options_;
  JobBootstrap* bootstrap_ = nullptr;
  FailureDetector* failure_detector_ = nullptr;
  Mutex mutex_;  // not held while bootstrap or detector are called, nor `leave` and `abort`
  CondVar changed_;
  // OnLost was called; `leave` and `abort` have returned.
  bool detector_done_ HP_GUARDED_BY(mutex_) = false, left_ HP_GUARDED_BY(mutex_) = false;
  bool finished_ HP_GUARDED_BY(mutex_) = false;  // all work is done
  Status failure_ HP_GUARDED_BY(mutex_);         // the first one, of Fail or OnLost
  Status stopped_ HP_GUARDED_BY(mutex_);         // of OnStopped
};

}  // namespace hp
