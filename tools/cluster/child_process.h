#pragma once

#include "hp/status.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace hp {

struct ChildOptions {
  std::vector<std::string> command;  ///< a program (looked up in PATH if it has no slash) and its arguments
  std::string folder;                ///< to run in; empty: ours
  bool with_input = false;           ///< its standard input is a pipe from us; else empty
  bool one_output = false;           ///< standard error goes where standard output does
  int kept_fd = -1;                  ///< a descriptor that is its number 3
};

/// A started program. Whoever started it closes the descriptors and waits for the process.
struct ChildProcess {
  pid_t pid = -1;
  int input = -1;   ///< -1 without `with_input`
  int output = -1;  ///< to read
  int error = -1;   ///< to read; -1 with `one_output`
};

/// Starts a program in a session of its own, so that the terminal's signals do not reach it; the kernel kills it when
/// the calling thread ends. It inherits no descriptor but those here: with another child's end of a pipe, that pipe
/// would never end. (Hence not Boost.Process, whose pipes are inherited.)
/// @return kNotFound: no such program or folder; kResourceExhausted: no processes or descriptors are left.
StatusOr<ChildProcess> StartChild(const ChildOptions& options);

/// Exit status, or 128 + the signal. @param wait_status as waitpid has it.
int ExitOf(int wait_status);

}  // namespace hp
