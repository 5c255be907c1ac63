#pragma once

#include "hp/status.h"

#include "google/protobuf/io/zero_copy_stream.h"

#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// A file that is written beside its place and put there in one step: until Commit, whoever looks at `path` sees what
/// was there before. The bytes stand in `path` + ".tmp", which is removed on destruction; one that a killed process
/// left is overwritten.
///   HP_ASSIGN_OR_RETURN(auto file, PendingFile::Create(path));
///   ... write to file->stream() ...
///   HP_RETURN_IF_ERROR(file->Sync());
///   HP_RETURN_IF_ERROR(file->Commit());
class PendingFile {
 public:
  /// @return kInvalidArgument: the folder is missing or cannot be written; kResourceExhausted: no space.
  static StatusOr<std::unique_ptr<PendingFile>> Create(const std::string& path);
  virtual ~PendingFile() = default;

  /// Where to write. An error is kept, and reported by Sync.
  virtual google::protobuf::io::ZeroCopyOutputStream* stream() = 0;
  /// Writes what is buffered and waits until the disk has it. Nothing may be written after it.
  virtual Status Sync() = 0;
  /// Renames the file into place. The caller syncs the folder (SyncFolderOf) when all its renames are done.
  virtual Status Commit() = 0;

  virtual const std::string& path() const = 0;
  /// Of all that was written; after Sync.
  virtual int64_t bytes() const = 0;
  virtual uint64_t xxh64() const = 0;
};

/// Makes renames and removals in the folder of `path` last through a power failure.
Status SyncFolderOf(const std::string& path);

/// Size and XXH64 (seed 0) of a file that is read as it streams by.
struct FileSum {
  int64_t bytes = 0;
  uint64_t xxh64 = 0;
};
StatusOr<FileSum> SumFile(const std::string& path);

}  // namespace hp
