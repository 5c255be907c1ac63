#pragma once

#include "data/dataset.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

/// Writes a new database in a folder beside its place ("PATH.partial-XXXXXX") and moves it there when it is complete: a
/// database that exists is never touched, and half of one never stands at PATH. One thread.
class DbWriter {
 public:
  /// @return kFailedPrecondition: `path` exists already; kNotFound: the folder it should be in does not.
  static StatusOr<std::unique_ptr<DbWriter>> Create(const std::string& path, DbBackend backend);
  /// Removes what is not finished.
  virtual ~DbWriter();

  /// Adds a record. Keys must differ.
  /// @return kInvalidArgument: the key was there already (LMDB); kResourceExhausted: no space left.
  Status Put(std::string_view key, std::string_view value);
  /// Writes what is left, closes the database, and moves it to its place. Nothing may follow.
  Status Finish();

  int64_t count() const { return count_; }
  const std::string& path() const { return path_; }

 protected:
  DbWriter(std::string path, std::string partial) : path_(std::move(path)), partial_(std::move(partial)) {}
  const std::string& partial() const { return partial_; }
  virtual Status DoPut(std::string_view key, std::string_view value) = 0;
  /// Writes what is buffered, durably, and closes.
  virtual Status DoFinish() = 0;

 private:
  const std::string path_, partial_;
  int64_t count_ = 0;
  bool finished_ = false;
};

}  // namespace hp
