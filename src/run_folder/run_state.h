#pragma once

#include "run_folder/shared_run_folder.h"

#include <string>
#include <utility>
#include <vector>

namespace hp {

/// What run.lock says: whose the folder is.
struct RunState {
  RunStart start;
  int incarnation = 0;                                       ///< 0: the file is empty, or damaged
  std::vector<std::pair<std::string, std::string>> members;  ///< nodes that took part, and where they are

  bool Has(const std::string& node) const;
};

/// The text of the file, a line for each thing, and back. A line that is damaged, as a full disk leaves the last one,
/// is passed over.
std::string StateText(const RunState& state);
std::string MemberText(const std::string& node, const std::string& where);
RunState ParseState(const std::string& text);

/// Locks of single bytes of a file, which belong to the open file and end with it. A lock is exclusive.
class ByteLocks {
 public:
  explicit ByteLocks(int fd) : fd_(fd) {}
  /// @return 0, or an errno: EAGAIN, EACCES: another open file has it.
  int Take(int64_t byte) const;
  /// Blocks until it is free.
  int Await(int64_t byte) const;
  void Release(int64_t byte) const;
  /// Whether another open file has the byte.
  bool IsTaken(int64_t byte) const;
  /// Whether another open file has any byte from `first` on.
  bool IsAnyTaken(int64_t first) const;

 private:
  const int fd_;
};

}  // namespace hp
