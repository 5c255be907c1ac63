#pragma once

#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// Proves that two nodes have one folder of snapshots: one makes a file with a drawn name there (Create) and tells the
/// other the name, which looks for it in its own (IsIn). The file goes with the object. Names of paths prove nothing,
/// since hosts may mount other disks under them, nor do device numbers, which are each host's own. A name that was just
/// drawn is in no cache of missing names that a network file system keeps. Any thread, one at a time.
///
/// A process that is killed leaves its file. The next one that makes one in the folder removes it, but none of a
/// process that lives: that one holds a lock on its file (flock). Not every network file system knows the locks of
/// other hosts, so another host's file must also be a day old.
class FolderNonce {
 public:
  /// Also removes what dead processes have left in the folder.
  /// @param prefix snapshot_prefix, of whose folder it is.
  /// @return kInvalidArgument: the folder is missing or can't be written; kResourceExhausted: no disk space.
  static StatusOr<std::unique_ptr<FolderNonce>> Create(const std::string& prefix);
  ~FolderNonce();
  FolderNonce(const FolderNonce&) = delete;

  /// Not 0.
  uint64_t number() const { return number_; }
  /// Whether the file of this number lies in the folder of `prefix`.
  static bool IsIn(const std::string& prefix, uint64_t number);

  // For who makes the file in another way; it goes a day after its writer at the earliest.
  static uint64_t DrawNumber();
  static std::string PathOf(const std::string& prefix, uint64_t number);
  static std::string TextOf(uint64_t number);  ///< of the file; a line of the host may follow

 private:
  FolderNonce(std::string path, uint64_t number, int fd) : path_(std::move(path)), number_(number), fd_(fd) {}
  Status Write();

  const std::string path_;
  const uint64_t number_;
  const int fd_;  // has the lock
};

}  // namespace hp
