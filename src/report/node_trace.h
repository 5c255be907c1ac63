#pragma once

#include "base/clock.h"
#include "base/log_writer.h"
#include "base/mutex.h"
#include "base/rank.h"
#include "hp/status.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/pipeline/time_use.h"
#include "transport/transport.h"

#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Writes what a node does to a file, as events for chrome://tracing or ui.perfetto.dev: on track "executor" its tasks
/// and what it waits for, on "link out" its writes from post to end, on "link in" the moments at which tensors arrived.
/// Their names are those of `hproute --simulate --trace`. Times are the system's, from the midnight (UTC) before
/// the start on, so that nodes whose hosts agree on the time stand side by side: who reads them has double precision,
/// which is too little for nanoseconds since 1970. Events pass through a bounded queue to a thread of their own: a slow
/// disk costs events, which are counted, and no time. What an end without warning leaves is readable up to the last
/// events.
///
/// It is off until Begin, and what comes meanwhile is forgotten. Owned by the node. Any thread; begins and ends are by
/// `clock`.
class NodeTrace {
 public:
  /// @param folder of the files. @param names of all nodes, by rank. @param clock must outlive it.
  NodeTrace(std::string folder, std::vector<std::string> names, Rank self, const Clock* clock);
  /// Ends, writes what is left, and says how many events were dropped.
  ~NodeTrace();

  /// Begins `folder`/NODE.json, or begins it anew; makes the folder if it is not there. No effect while it is on. Waits
  /// for a disk that has not taken all of the last trace.
  /// @return kInvalidArgument: it cannot be written.
  Status Begin() HP_EXCLUDES(mutex_);
  /// Ends the file. Does not wait for the disk. No effect while it is off.
  void End() HP_EXCLUDES(mutex_);

  void OnTask(const Task& task, int64_t begin_ns, int64_t end_ns);
  void OnWait(Wait wait, int64_t begin_ns, int64_t end_ns);
  /// A write is about to be posted, and has ended: tensors of micro-batches, gradients of an exchange, slices of
  /// snapshots.
  void OnWrite(Rank peer, const PlaceTag& tag) HP_EXCLUDES(mutex_);
  void OnWriteEnded(Rank peer, const PlaceTag& tag) HP_EXCLUDES(mutex_);
  /// A place that `peer` was granted is filled.
  void OnArrived(Rank peer, const PlaceTag& tag);

 private:
  enum Track { kExecutor = 1, kLinkOut, kLinkIn };
  /// Events that wait at most: 16 s of a small net's.
  static constexpr size_t kMaxWaiting = size_t{1} << 18;

  /// One file, from Begin to End.
  class File {
   public:
    File(std::ofstream file, std::string node);
    void Add(std::string text) { writer_.Add({'I', 0, std::move(text)}); }

   private:
    const std::string node_;
    std::ofstream file_;   // of the writer's thread
    bool failed_ = false;  // likewise: the disk takes no more
    LogWriter writer_;     // last: its thread uses the others
  };
  std::string Head() const;
  void Add(std::string event) HP_EXCLUDES(mutex_);
  int64_t SystemNs(int64_t at_ns) const { return at_ns + offset_ns_; }

  const std::string folder_;
  const std::vector<std::string> names_;
  const Rank self_;
  const Clock* const clock_;
  const int64_t offset_ns_;  // from the clock's times to the system's
  std::atomic<bool> on_ = false;
  Mutex mutex_;
  std::map<std::pair<Rank, PlaceTag>, int64_t> writes_ HP_GUARDED_BY(mutex_);  // when posted
  std::unique_ptr<File> file_ HP_GUARDED_BY(mutex_);                           // null: off
  std::unique_ptr<File> ended_ HP_GUARDED_BY(mutex_);                          // the last one, maybe still written
};

}  // namespace hp
