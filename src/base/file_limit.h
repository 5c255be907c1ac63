#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>

namespace hp {

/// Raises this process's limit of open files to what its user may set, and compares it with what is needed.
/// @param files sockets and files beside those of an idle process. @param what needs them, for the message.
/// @return kResourceExhausted: the limit is lower; says what to do.
Status RaiseFileLimit(int64_t files, const std::string& what);

}  // namespace hp
