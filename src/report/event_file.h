#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "proto/events.pb.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hp {

/// A file of TensorBoard's, "events.out.tfevents.TIME.HOST.PID.N", of the training's curves. Each start of a training
/// writes a file of its own, as TensorBoard expects: it reads all files of a folder in the order of their names. The
/// second record says at which iteration the start begins; of earlier files TensorBoard then drops what is from there
/// on. Records are written by a thread of its own, "event file": a slow disk delays nobody.
class EventFile {
 public:
  /// A point of the curve `first`.
  using Point = std::pair<std::string, double>;

  /// Makes the folder, if it is missing, and the file. @param start first iteration of this start.
  /// @return kInvalidArgument: they can't be made or written.
  static StatusOr<std::unique_ptr<EventFile>> Create(const std::string& folder, int64_t start);
  /// Writes what is left, and joins the thread.
  ~EventFile();

  /// Adds points of one iteration, with the time of the call. Any thread; does not block. A file that can't be written
  /// is one warning.
  void Add(int64_t iteration, const std::vector<Point>& points) HP_EXCLUDES(mutex_);

  const std::string& path() const { return path_; }

 private:
  EventFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void Begin(int64_t start);
  void Run();
  void Write(const TrainingEvent& event);

  const std::string path_;
  const int file_;
  // The thread's alone.
  bool warned_ = false, torn_ = false;
  int64_t end_ = 0;  // of the last whole record
  Mutex mutex_;
  CondVar changed_;
  std::deque<TrainingEvent> events_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

/// The checksum of Castagnoli of `bytes` (RFC 3720, appendix B.4).
uint32_t Crc32c(std::string_view bytes);

}  // namespace hp
