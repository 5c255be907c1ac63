#pragma once

#include "hp/status.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// The calls on a shared folder, one for each that a file system over a network may answer wrongly: a reply that is
/// lost and asked for again reports an error for what was done, and a name that was looked up before it existed may be
/// remembered as missing. A test puts a fake in its place. Any thread. Unless said otherwise they return kUnavailable
/// with the system's error.
class FileSeam {
 public:
  virtual ~FileSeam() = default;
  /// The system's calls; lives as long as the process.
  static FileSeam* Real();

  /// Makes the folder, and those above it, unless it is there. @return kInvalidArgument: it can't.
  virtual Status MakeFolder(const std::string& path) = 0;
  /// Writes a file whole, and has the disk take it. What is there is overwritten.
  virtual Status WriteFile(const std::string& path, std::string_view bytes) = 0;
  /// Creates an empty file, and does not wait for the disk.
  virtual Status Touch(const std::string& path) = 0;
  /// link(2).
  virtual Status Link(const std::string& from, const std::string& to) = 0;
  /// rename(2).
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  /// unlink(2); that it is not there is no error.
  virtual Status Remove(const std::string& path) = 0;
  /// Hard links of a file, from its open descriptor, which a client of NFS asks the server for.
  virtual StatusOr<int> CountLinks(const std::string& path) = 0;
  /// @return all bytes, at most 1 MiB; nothing: there is no such file.
  virtual StatusOr<std::optional<std::string>> ReadFile(const std::string& path) = 0;
  /// Names in a folder, sorted, without "." and "..".
  virtual StatusOr<std::vector<std::string>> ListFolder(const std::string& path) = 0;
};

}  // namespace hp
