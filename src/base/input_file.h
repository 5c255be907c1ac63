#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

// Files that users name. Only regular ones are read: to open a pipe blocks until somebody writes to it, and a device
// may have no end. Symbolic links are followed. Any thread; both block for the disk.

/// Opens a file for reading. @return its descriptor, which the caller closes; kNotFound: no such file;
/// kInvalidArgument: it is a folder, a pipe or a device, or cannot be opened; kResourceExhausted: not now, and the file
/// is not to blame (too many open ones, memory, a handle that a network file system has lost). The message begins with
/// the path.
StatusOr<int> OpenInputFile(const std::string& path);

/// All bytes of a file. Errors as OpenInputFile's, also of reading it.
StatusOr<std::string> ReadInputFile(const std::string& path);

}  // namespace hp
