// /proc/self/cgroup names the group of each hierarchy, /proc/self/mountinfo where the hierarchies are mounted, and
// which group is the topmost of a mount: a container sees its own group there. From the own group's folder all folders
// up to the mount have limits that hold.
#include "base/cgroup.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>

namespace hp {
namespace {

/// One hierarchy of groups that has a controller, and this process's group in it.
struct Hierarchy {
  int version = 2;
  std::string mount;  ///< the topmost folder
  std::string group;  ///< path below it: "/a/b", or empty
};

std::vector<std::string> Words(const std::string& line, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The group's path in the hierarchy of `version`; nothing: this process is in none.
std::optional<std::string> GroupOf(const std::string& controller, int version, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/path"; version 2: "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool found = version == 2 ? controllers.empty() : Has(Words(controllers, ','), controller);
    if (found) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The path of `group` below a mount whose topmost group is `top`; empty where it is not below it.
std::string Below(const std::string& group, const std::string& top) {
  if (top == "/") return group == "/" ? "" : group;
  return group.rfind(top + "/", 0) == 0 ? group.substr(top.size()) : "";
}

std::vector<Hierarchy> HierarchiesOf(const std::string& controller, const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  // ID PARENT MAJOR:MINOR TOP MOUNT OPTIONS... - TYPE SOURCE SUPER_OPTIONS
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = Words(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const int version = dash[1] == "cgroup2" ? 2 : dash[1] == "cgroup" ? 1 : 0;
    if (version == 0 || (version == 1 && !Has(Words(dash[3], ','), controller))) continue;
    const std::optional<std::string> group = GroupOf(controller, version, root);
    if (group) found.push_back({version, words[4], Below(*group, words[3])});
  }
  return found;
}

/// Calls `use` with each folder from the own group's up to the mount, without `root`.
template <typename Use>
void ForEachFolder(const Hierarchy& hierarchy, const Use& use) {
  for (std::string group = hierarchy.group; !group.empty(); group.erase(group.rfind('/'))) {
    if (group.back() != '/') use(hierarchy.mount + group);
  }
  use(hierarchy.mount);
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> Number(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// Whole processors that the folder's group may use; nothing: any number.
std::optional<int> CoresOf(const std::string& folder, int version) {
  std::optional<int64_t> quota, period;
  if (version == 2) {  // "max 100000" or "200000 100000"
    const std::vector<std::string> words = Words(FirstLine(folder + "/cpu.max"), ' ');
    if (words.size() != 2) return std::nullopt;
    quota = Number(words[0]);
    period = Number(words[1]);
  } else {  // -1: none
    quota = Number(FirstLine(folder + "/cpu.cfs_quota_us"));
    period = Number(FirstLine(folder + "/cpu.cfs_period_us"));
  }
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<int>(std::clamp<int64_t>(*quota / *period, 1, std::numeric_limits<int>::max()));
}

/// The number behind `name` in a file of lines "NAME NUMBER"; 0: there is none.
int64_t Field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + " ", 0) == 0) return Number(line.substr(name.size() + 1)).value_or(0);
  }
  return 0;
}

/// What the group of `folder` may still take; nothing: it has no limit.
std::optional<CgroupRoom> RoomOf(const std::string& root, const std::string& folder, int version) {
  const std::string path = root + folder;
  const bool v2 = version == 2;
  const std::optional<int64_t> limit = Number(FirstLine(path + (v2 ? "/memory.max" : "/memory.limit_in_bytes")));
  const std::optional<int64_t> used = Number(FirstLine(path + (v2 ? "/memory.current" : "/memory.usage_in_bytes")));
  if (!limit || !used) return std::nullopt;  // "max"
  const int64_t cache = Field(path + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file");
  return CgroupRoom{std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cache)), *limit, folder};
}

}  // namespace

std::vector<CpuQuota> CpuQuotas(const std::string& root) {
  std::vector<CpuQuota> quotas;
  for (const Hierarchy& hierarchy : HierarchiesOf("cpu", root)) {
    ForEachFolder(hierarchy, [&](const std::string& folder) {
      const std::optional<int> cores = CoresOf(root + folder, hierarchy.version);
      struct stat info = {};
      // The kernel numbers groups for as long as it runs, whatever name a container has for one.
      if (cores && stat((root + folder).c_str(), &info) == 0) quotas.push_back({info.st_ino, *cores});
    });
  }
  return quotas;
}

std::optional<CgroupRoom> CgroupMemoryRoom(const std::string& root) {
  std::optional<CgroupRoom> least;
  for (const Hierarchy& hierarchy : HierarchiesOf("memory", root)) {
    ForEachFolder(hierarchy, [&](const std::string& folder) {
      std::optional<CgroupRoom> room = RoomOf(root, folder, hierarchy.version);
      if (room && (!least || room->bytes < least->bytes)) least = std::move(room);
    });
  }
  return least;
}

}  // namespace hp
