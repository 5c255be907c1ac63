#pragma once

#include "hp/status.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

/// A file that is written under a temporary name in the folder of `path` and renamed to `path` by Commit: until then
/// `path` is what it was before. Destruction without Commit removes the temporary file. What is there and is no file (a
/// terminal, a pipe, /dev/null) is written to as it is. One thread at a time.
///   HP_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(path));
///   HP_RETURN_IF_ERROR(file->Write(bytes));
///   HP_RETURN_IF_ERROR(file->Sync());
///   HP_RETURN_IF_ERROR(file->Commit());
class PendingFile {
 public:
  /// Writes to `path` + `suffix` with the permissions of the umask; a file of that name that a killed process left is
  /// overwritten. Only one process at a time may write `path` with the same suffix. Where `path` is a symbolic link, it
  /// is the link that Commit replaces; ThroughLinks tells the file.
  /// @return kInvalidArgument: the folder is missing or cannot be written, or `path` is one; kResourceExhausted: no
  /// disk space.
  static StatusOr<std::unique_ptr<PendingFile>> Create(const std::string& path, const std::string& suffix = ".tmp");
  /// Writes to a unique name, `path` + ".XXXXXX", so that several processes may write `path` at once: the last Commit
  /// wins. Only its owner may read it (mode 0600). Errors as Create's.
  static StatusOr<std::unique_ptr<PendingFile>> CreatePrivate(const std::string& path);

  PendingFile(const PendingFile&) = delete;
  ~PendingFile();

  /// Appends `bytes`; blocks while the kernel takes them. The first error is kept: each later Write and Sync returns
  /// it.
  /// @return kResourceExhausted: no disk space or quota; kInvalidArgument: any other error of the disk.
  Status Write(std::string_view bytes);
  /// Blocks until the disk has all bytes (fsync). No Write may follow. Errors as Write's.
  Status Sync();
  /// Renames the file to `path`, replacing what is there. Call it once, after a Sync that succeeded (CHECK). The rename
  /// survives a power failure only when the folder is synced too: call SyncFolderOf once all files of a group are
  /// committed. Errors as Write's, and kNotFound: the folder is gone.
  Status Commit();

  /// The final name.
  const std::string& path() const { return path_; }
  /// Where the bytes are until Commit, for a library that writes them itself.
  const std::string& temporary() const { return temporary_; }

 private:
  PendingFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  static StatusOr<std::unique_ptr<PendingFile>> CreateInPlace(const std::string& path);
  bool in_place() const { return path_ == temporary_; }

  const std::string path_, temporary_;
  int fd_;  // -1: synced
  bool committed_ = false;
  Status status_;
};

/// Makes renames and removals in the folder that contains `path` survive a power failure; blocks for the disk.
/// @return kNotFound: there is no such folder; else as PendingFile::Write.
Status SyncFolderOf(const std::string& path);

/// The file that `path`, an output that a user names, stands for: what a symbolic link leads to, if that is there,
/// else `path` itself.
std::string ThroughLinks(const std::string& path);

/// Create, ThroughLinks, Write, Sync, Commit and SyncFolderOf in one call: a crash at any moment leaves `path` with its
/// old contents or the new ones, if it is a file. Errors as theirs; only that of SyncFolderOf comes after `path` was
/// replaced.
/// @param suffix as Create's.
Status WriteWholeFile(const std::string& path, std::string_view bytes, const std::string& suffix = ".tmp");

}  // namespace hp
