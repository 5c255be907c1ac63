#pragma once

#include "hp/status.h"

#include <memory>
#include <string>

namespace hp {

/// A run's folder on the host of its hplaunch: table, solver and net in use, logs/, snapshots/ and record.txt, which
/// has a line for each thing that happened. One hplaunch at a time has it, held by a lock on record.txt. One thread.
class RunFolder {
 public:
  /// Makes the folder, or goes on in one that is there, and locks it. @param path absolute.
  /// @return kFailedPrecondition: another hplaunch, or nodes that were started by themselves, run in it; says which
  /// hplaunch, as its record has it; or the disk has no locks; kInvalidArgument, kResourceExhausted: it can't be made.
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

}  // namespace hp
