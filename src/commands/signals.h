#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "commands/time_limit.h"
#include "hp/status.h"

#include <csignal>
#include <functional>
#include <string>

namespace hp {

class Node;

/// The process's signals, taken by a thread of its own, "signals", in every state of the process, as the first one of a
/// container too (which the kernel spares the signals that it has no handler for):
/// - SIGINT, SIGTERM and SIGUSR1, however often they come, stop the job: with a snapshot once training has begun
///   (Node::RequestStop), at once before. Launchers and terminals may both deliver one SIGINT, and schedulers repeat
///   SIGTERM; only a SIGINT more than 1 s after the first means that the user does not want to wait, and ends the
///   process.
/// - The end of the allocation, options.limit ahead of it, does as SIGUSR1.
/// - SIGHUP asks for a snapshot, as in Caffe; before training it stops the job. One that was ignored when the process
///   began (nohup) stays so. Options can give both, SIGINT and SIGHUP, another effect.
/// - SIGPIPE and SIGXFSZ are ignored: writes to closed connections, and to files beyond the limit on their size
///   (ulimit -f), report an error instead.
/// A stop that takes longer than `stop_within_s` ends the process without a snapshot.
class SignalThread {
 public:
  /// What a signal of the terminal does once training has begun; before, kSnapshot stops as kStop does.
  enum class Effect { kStop, kSnapshot, kNone };
  struct Options {
    int stop_within_s = 20;  ///< at least 1
    Effect on_sigint = Effect::kStop, on_sighup = Effect::kSnapshot;
    TimeLimit limit;  ///< when to stop without a signal
    /// Ends the process with this status; must not return.
    std::function<void(const Status&)> leave;
  };
  /// Blocks the signals and starts the thread. Make it first in main: threads that already run would still be ended by
  /// a signal. It lives until the process ends, and is never destroyed.
  explicit SignalThread(Options options);

  /// Signals go to this node from now on, the process's one or its first; null: the work is done, nobody takes requests
  /// any more. Until the first call a stop ends the process. The node must live until another call returns.
  void Serve(Node* node) HP_EXCLUDES(mutex_);

 private:
  void Run();
  void OnSignal(int signal) HP_EXCLUDES(mutex_);
  Effect EffectOf(int signal) const;
  /// The end of the allocation is near.
  void OnTimeLimit() HP_EXCLUDES(mutex_);
  void Stop(const std::string& why) HP_REQUIRES(mutex_);
  /// The time for a stop is over.
  void OnLate() HP_EXCLUDES(mutex_);

  const Options options_;
  sigset_t signals_;
  // The signals' thread alone.
  int64_t stop_asked_ns_ = 0, interrupted_ns_ = 0;  // the first signal that stops; the first SIGINT; 0: none yet
  bool late_ = false, limit_reached_ = false;
  Mutex mutex_;  // held while the node is called
  Node* node_ HP_GUARDED_BY(mutex_) = nullptr;
  bool done_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

/// The effect that Caffe calls "stop", "snapshot" or "none". @param flag stands in the message.
/// @return kInvalidArgument: another word.
StatusOr<SignalThread::Effect> EffectOfFlag(const char* flag, const std::string& word);

}  // namespace hp
