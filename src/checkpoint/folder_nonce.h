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
class FolderNonce {
 public:
  /// @param prefix snapshot_prefix, of whose folder it is. @return as WriteWholeFile.
  static StatusOr<std::unique_ptr<FolderNonce>> Create(const std::string& prefix);
  ~FolderNonce();
  FolderNonce(const FolderNonce&) = delete;

  /// Not 0.
  uint64_t number() const { return number_; }
  /// Whether the file of this number lies in the folder of `prefix`.
  static bool IsIn(const std::string& prefix, uint64_t number);

 private:
  explicit FolderNonce(std::string path, uint64_t number) : path_(std::move(path)), number_(number) {}

  const std::string path_;
  const uint64_t number_;
};

}  // namespace hp
