#pragma once

#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// A run's folder on the host of its hplaunch: table, solver and net in use, logs/, snapshots/ and record.txt, which
/// has a line for each thing that happened. One hplaunch at a time has it, held by a lock on record.txt. One thread.
class RunFolder {
 public:
  /// Makes the folder, or goes on in one that is there, and locks it. @param path absolute.
  /// @return kFailedPrecondition: another hplaunch runs in it; says which, as its record has it; kInvalidArgument,
  /// kResourceExhausted: it can't be made.
  static StatusOr<std::unique_ptr<RunFolder>> Open(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Records this process as the one that has the folder. @param version of it.
  void RecordStart(const std::string& version);
  /// Adds a line with the time to record.txt. A disk that is full is no error: a warning.
  void Record(const std::string& text);
  /// Begins the next incarnation of the job: 1 for the first that ever ran in this folder. Removes logs of those that
  /// are long past.
  int BeginIncarnation();
  /// logs/NODE.INCARNATION.log
  std::string LogPath(const std::string& node, int incarnation) const;

 private:
  RunFolder(std::string path, int fd) : path_(std::move(path)), record_(fd) {}

  const std::string path_;
  const int record_;
};

/// "20261124-221502-5f3a": time, and what tells two runs of one second apart.
std::string NewRunId();

/// A text file that does not grow for ever: when it is full it becomes NAME.1, what was NAME.1 becomes NAME.2, and so
/// on; the oldest goes. One thread.
class RotatingLog {
 public:
  static constexpr int64_t kMostBytes = 16 << 20;  ///< of each file
  static constexpr int kMostFiles = 4;             ///< of them

  explicit RotatingLog(std::string path, int64_t most_bytes = kMostBytes);
  ~RotatingLog();
  RotatingLog(const RotatingLog&) = delete;

  /// Adds a line, to which it adds the newline. May block for the disk.
  /// @return kInvalidArgument: the file can't be opened; kResourceExhausted: the line was not written, or not all of
  /// it.
  Status Add(const std::string& line);

 private:
  void Open(int flags);
  void Rotate();

  const std::string path_;
  const int64_t most_bytes_;
  int fd_ = -1;
  Status opened_;
  int64_t bytes_ = 0;
};

}  // namespace hp
