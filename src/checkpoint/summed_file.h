#pragma once

#include "hp/status.h"

#include "google/protobuf/io/zero_copy_stream.h"

#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// A file that is on the disk under a temporary name: Commit makes it visible, destruction without it removes it.
class WrittenFile {
 public:
  virtual ~WrittenFile() = default;
  /// Renames the file into place; once. The caller syncs the folder (SyncFolderOf).
  virtual Status Commit() = 0;
  /// The final path.
  virtual const std::string& path() const = 0;
  /// Size, and XXH64 with seed 0, of all that was written.
  virtual int64_t bytes() const = 0;
  virtual uint64_t xxh64() const = 0;
};

/// A pending file (base/pending_file.h) as an output stream of protobuf, with the size and checksum of what was
/// written. Nothing stands at `path` before Commit; destruction without Commit removes what was written. One thread at
/// a time.
///   HP_ASSIGN_OR_RETURN(const auto file, SummedFile::Create(path));
///   ... write to file->stream() ...
///   HP_RETURN_IF_ERROR(file->Sync());
///   HP_RETURN_IF_ERROR(file->Commit());
class SummedFile : public WrittenFile {
 public:
  /// @param suffix of the temporary name, as PendingFile::Create.
  /// @return kInvalidArgument: the folder is missing or cannot be written; kResourceExhausted: no space.
  static StatusOr<std::unique_ptr<SummedFile>> Create(const std::string& path, const std::string& suffix = ".tmp");
  /// Where to write; owned by the file. A CodedOutputStream over it must be destroyed before Sync. The first error is
  /// kept for Sync to report.
  virtual google::protobuf::io::ZeroCopyOutputStream* stream() = 0;
  /// Writes what is buffered and waits until the disk has it. Nothing may be written after it.
  /// @return kResourceExhausted: no space; else the first error of a write.
  virtual Status Sync() = 0;
};

/// Size and XXH64 (seed 0) of a file.
struct FileSum {
  int64_t bytes = 0;
  uint64_t xxh64 = 0;
};
/// Computes the sum of a file; reads it once, 1 MiB at a time.
/// @return kNotFound: there is no such file; kInvalidArgument: it cannot be read.
StatusOr<FileSum> SumFile(const std::string& path);

}  // namespace hp
