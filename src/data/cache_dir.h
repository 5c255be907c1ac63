#pragma once

#include <string>

namespace hp {

/// The folder for record indexes: `configured` if it is not empty; else hpnode below $XDG_CACHE_HOME or ~/.cache.
/// Empty: nowhere (neither variable is set, or `configured` is "none"). The folder may not exist yet.
std::string CacheDirectory(const std::string& configured);

}  // namespace hp
