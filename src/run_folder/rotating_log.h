#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>

namespace hp {

/// A text file that does not grow for ever: when it is full it becomes NAME.1, what was NAME.1 becomes NAME.2, and so
/// on; the oldest goes. One thread.
class RotatingLog {
 public:
  static constexpr int64_t kMostBytes = 16 << 20;  ///< of each file
  static constexpr int kMostFiles = 4;             ///< of them

  explicit RotatingLog(std::string path, int64_t most_bytes = kMostBytes);
  ~RotatingLog();
  RotatingLog(const RotatingLog&) = delete;

  /// Adds a line, to which it adds the newline. May block for the disk. A file that could not be opened is tried again
  /// with each line.
  /// @return kInvalidArgument: the file can't be opened; kResourceExhausted: the line was not written, or not all of
  /// it.
  Status Add(const std::string& line);

 private:
  void Open(int flags);
  void Rotate();

  const std::string path_;
  const int64_t most_bytes_;
  int fd_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace hp
