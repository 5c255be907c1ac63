#pragma once

#include <string>

namespace hp {

/// The folder that keeps record indexes between runs: `configured` (flag --cache_dir) if it is not empty, else
/// $XDG_CACHE_HOME/hpnode, else ~/.cache/hpnode. It may not exist yet.
/// @return empty: nothing is kept, because `configured` is "none" or neither variable is set.
std::string CacheDirectory(const std::string& configured);

}  // namespace hp
