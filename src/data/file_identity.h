#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hp {

/// What tells one state of a file from another without reading it.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, mtime_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// Of the file or folder at `path`; nothing: it can't be examined (errno says why).
std::optional<FileIdentity> IdentityOf(const std::string& path);
std::optional<FileIdentity> IdentityOf(int fd);

}  // namespace hp
