#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// Makes a folder and those above it; one that is there is well. Blocks for the disk. Any thread.
/// @return kInvalidArgument, kResourceExhausted: it can't be made.
Status MakeFolder(const std::string& path);

}  // namespace hp
