#include "data/cache_dir.h"

#include <cstdlib>

namespace hp {

std::string CacheDirectory(const std::string& configured) {
  if (configured == "none") return {};
  if (!configured.empty()) return configured;
  // The XDG base directory specification: a relative path is to be ignored.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/') {
    return std::string(xdg) + "/hpnode";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    return std::string(home) + "/.cache/hpnode";
  }
  return {};
}

}  // namespace hp
