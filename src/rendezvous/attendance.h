#pragma once

#include "base/mutex.h"
#include "base/thread.h"

#include "rendezvous/job_rendezvous.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// Says once a second, on the thread "rendezvous", that a node lives and how far it is, and at the end how it ended.
/// A rendezvous that can't be reached is one warning, and stops nothing.
class Attendance {
 public:
  /// @param record of the process, which has its table now.
  Attendance(std::unique_ptr<JobRendezvous> rendezvous, NodeRecord record);
  /// Ends it without a word, as a process that is killed does; End says more.
  ~Attendance();

  /// How many iterations are done, for what is said next. Any thread.
  void SetIteration(int64_t iteration) { iteration_ = iteration; }
  /// Begins to say how the process ends, and does not wait. The first call of this or End counts. Any thread.
  void BeginEnd(int exit_status) HP_EXCLUDES(mutex_);
  /// Says how the process ends, waits at most 1 s until that is said, and says nothing more. It waits for no
  /// rendezvous that was gone already, and a second call not at all. Any thread.
  void End(int exit_status) HP_EXCLUDES(mutex_);

 private:
  void Run() HP_EXCLUDES(mutex_);
  /// The next record to say.
  NodeRecord Next() HP_EXCLUDES(mutex_);
  void Say(const NodeRecord& record);

  void SetEnding(int exit_status) HP_REQUIRES(mutex_);

  const std::unique_ptr<JobRendezvous> rendezvous_;  // its thread's
  NodeRecord record_;                                // likewise
  std::atomic<bool> warned_ = false;
  std::atomic<int64_t> iteration_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ HP_GUARDED_BY(mutex_) = false, ending_ HP_GUARDED_BY(mutex_) = false, said_ HP_GUARDED_BY(mutex_) = false;
  bool awaited_ HP_GUARDED_BY(mutex_) = false;  // by End
  int exit_status_ HP_GUARDED_BY(mutex_) = 0;
  Thread thread_;
};

}  // namespace hp
