#pragma once

#include "hp/status.h"

#include "google/protobuf/io/zero_copy_stream.h"

#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// A pending file (base/pending_file.h) that protobuf writes into, and the sum of all that it wrote. One thread at a
/// time.
///   HP_ASSIGN_OR_RETURN(const auto file, SummedFile::Create(path));
///   ... write to file->stream() ...
///   HP_RETURN_IF_ERROR(file->Sync());
///   HP_RETURN_IF_ERROR(file->Commit());
class SummedFile {
 public:
  /// Errors as PendingFile::Create's.
  static StatusOr<std::unique_ptr<SummedFile>> Create(const std::string& path);
  virtual ~SummedFile() = default;

  /// Where to write. An error is kept, and reported by Sync.
  virtual google::protobuf::io::ZeroCopyOutputStream* stream() = 0;
  /// Writes what is buffered and waits until the disk has it. Nothing may be written after it.
  virtual Status Sync() = 0;
  /// As PendingFile::Commit.
  virtual Status Commit() = 0;

  virtual const std::string& path() const = 0;
  /// Of all that was written; after Sync.
  virtual int64_t bytes() const = 0;
  virtual uint64_t xxh64() const = 0;
};

/// Size and XXH64 (seed 0) of a file.
struct FileSum {
  int64_t bytes = 0;
  uint64_t xxh64 = 0;
};
/// Reads the file once, a block at a time.
/// @return kNotFound: there is no such file; kInvalidArgument: it cannot be read.
StatusOr<FileSum> SumFile(const std::string& path);

}  // namespace hp
