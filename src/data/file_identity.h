#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hp {

/// Identifies one state of a file without reading its contents: if two are equal, the file was neither replaced nor
/// changed between them (unless its time was set back).
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, mtime_ns = 0;  ///< bytes; time of the last change since 1970

  bool operator==(const FileIdentity&) const = default;
};

/// Of the file or folder at `path` (symbolic links are followed), or of an open file. @return nothing: stat failed,
/// errno says why.
std::optional<FileIdentity> IdentityOf(const std::string& path);
std::optional<FileIdentity> IdentityOf(int fd);

}  // namespace hp
