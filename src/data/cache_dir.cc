#include "data/cache_dir.h"

#include "base/environment.h"

namespace hp {

std::string CacheDirectory(const std::string& configured) {
  if (configured == "none") return {};
  if (!configured.empty()) return configured;
  // The XDG base directory specification: a relative path is to be ignored.
  if (const std::string xdg = Environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/hpnode";
  if (const std::string home = Environment("HOME"); home.starts_with('/')) return home + "/.cache/hpnode";
  return {};
}

}  // namespace hp
