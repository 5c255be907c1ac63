#pragma once

#include "data/dataset.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

/// Writes a new database in the folder "PATH.partial-XXXXXX" and renames it to PATH when it is complete: a database
/// that exists is never touched, and an incomplete one is never at PATH. Create, Put records, Finish; destruction
/// without Finish removes what was written. One thread at a time.
class DbWriter {
 public:
  /// @param path of the database, a folder.
  /// @return kFailedPrecondition: `path` exists already; kNotFound: its parent folder does not exist; kInvalidArgument:
  /// it cannot be written.
  static StatusOr<std::unique_ptr<DbWriter>> Create(const std::string& path, DbBackend backend);
  /// Removes the partial folder unless it was finished.
  virtual ~DbWriter();

  /// Adds a record. Keys must differ; readers number records in the order of keys, not of the calls. Not after Finish
  /// (CHECK).
  /// @return kInvalidArgument: the key was there already (LMDB); kResourceExhausted: no disk space left.
  Status Put(std::string_view key, std::string_view value);
  /// Writes what is buffered to the disk, closes the database and renames it to its path; once, as the last call.
  /// @return as Put; kFailedPrecondition: `path` has come into existence meanwhile, or cannot be renamed to.
  Status Finish();

  int64_t count() const { return count_; }           ///< records put so far
  const std::string& path() const { return path_; }  ///< of the finished database

 protected:
  DbWriter(std::string path, std::string partial) : path_(std::move(path)), partial_(std::move(partial)) {}
  const std::string& partial() const { return partial_; }  ///< the folder to write into
  virtual Status DoPut(std::string_view key, std::string_view value) = 0;
  /// Writes what is buffered, syncs it to the disk and closes the database.
  virtual Status DoFinish() = 0;

 private:
  const std::string path_, partial_;
  int64_t count_ = 0;
  bool finished_ = false;
};

}  // namespace hp
