#pragma once

#include "hp/status.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

/// A file that is written beside its place and put there in one step: until Commit, whoever looks at `path` sees what
/// was there before. Destruction without Commit removes what was written. One thread at a time.
///   HP_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(path));
///   HP_RETURN_IF_ERROR(file->Write(bytes));
///   HP_RETURN_IF_ERROR(file->Sync());
///   HP_RETURN_IF_ERROR(file->Commit());
class PendingFile {
 public:
  /// The bytes stand in `path` + ".tmp"; one that a killed process left is overwritten. Only one process at a time may
  /// write `path`.
  /// @return kInvalidArgument: the folder is missing or cannot be written; kResourceExhausted: no space.
  static StatusOr<std::unique_ptr<PendingFile>> Create(const std::string& path);
  /// The bytes stand in a file of a name of its own beside `path`, so that several processes may write `path` at once:
  /// the last Commit counts. Only its owner may read it. Errors as above.
  static StatusOr<std::unique_ptr<PendingFile>> CreatePrivate(const std::string& path);

  PendingFile(const PendingFile&) = delete;
  ~PendingFile();

  /// Appends. The first error is kept: it is what each later Write, and Sync, returns.
  /// @return kResourceExhausted: no space.
  Status Write(std::string_view bytes);
  /// Waits until the disk has everything. Nothing may be written after it. Errors as above.
  Status Sync();
  /// Renames the file into place; after Sync, once. Lasts through a power failure when the caller has synced the folder
  /// (SyncFolderOf), which it does when all its renames are done.
  Status Commit();

  const std::string& path() const { return path_; }

 private:
  PendingFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  const std::string path_, temporary_;
  int fd_;  // -1: synced
  bool committed_ = false;
  Status status_;
};

/// Makes renames and removals in the folder of `path` last through a power failure.
Status SyncFolderOf(const std::string& path);

/// Writes a small file in one go: after an error, or a crash at any moment, `path` is what it was before. Errors as
/// PendingFile's.
Status WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace hp
