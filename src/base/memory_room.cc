#include "base/memory_room.h"

#include "base/cgroup.h"
#include "base/format.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace hp {
namespace {

constexpr int64_t kAddressSpace = int64_t{1} << 47;

/// A number in kB from a file of lines "NAME:   NUMBER kB", in bytes; nothing: the file does not have it.
std::optional<int64_t> KiloBytes(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) != 0) continue;
    int64_t number = 0;
    if (std::istringstream(line.substr(name.size() + 1)) >> number) return number * 1024;
  }
  return std::nullopt;
}

/// Keeps the least of what is shown to it.
class LeastRoom {
 public:
  void Take(MemoryRoom room) {
    room.bytes = std::max<int64_t>(room.bytes, 0);
    if (room.bytes < least_.bytes) least_ = std::move(room);
  }
  MemoryRoom room() const { return least_; }

 private:
  MemoryRoom least_ = AddressSpaceRoom();
};

void TakeLimit(int resource, const std::string& root, const char* used_name, MemoryRoom room, LeastRoom* least) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(kAddressSpace)) return;
  const int64_t used = KiloBytes(root + "/proc/self/status", used_name).value_or(0);
  room.bytes = static_cast<int64_t>(limit.rlim_cur) - used - kLibraryReserve;
  least->Take(std::move(room));
}

}  // namespace

MemoryRoom AddressSpaceRoom() { return {kAddressSpace, "no host has more than", ""}; }

MemoryRoom HostMemoryTotal(const std::string& root) {
  LeastRoom least;
  if (const std::optional<int64_t> total = KiloBytes(root + "/proc/meminfo", "MemTotal")) {
    const int64_t swap = KiloBytes(root + "/proc/meminfo", "SwapTotal").value_or(0);
    least.Take({*total + swap, "this host has", ""});
  }
  if (const std::optional<CgroupRoom> group = CgroupMemoryRoom(root)) {
    least.Take({group->limit, "control group " + group->folder + " of this host allows", ""});
  }
  return least.room();
}

// Not from /proc/meminfo: containers may show their own limit there.
MemoryRoom MachineMemory() {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return AddressSpaceRoom();
  return {static_cast<int64_t>((info.totalram + info.totalswap) * info.mem_unit), "it has", ""};
}

MemoryRoom HostMemoryRoom(const std::string& root) {
  LeastRoom least;
  if (const std::optional<int64_t> free = KiloBytes(root + "/proc/meminfo", "MemAvailable")) {
    const int64_t swap = KiloBytes(root + "/proc/meminfo", "SwapFree").value_or(0);
    least.Take({*free + swap, "the host has free", "end other programs"});
  }
  if (const std::optional<CgroupRoom> group = CgroupMemoryRoom(root)) {
    least.Take({group->bytes, "its control group " + group->folder + " leaves", "raise the group's memory limit"});
  }
  TakeLimit(RLIMIT_AS, root, "VmSize",
            {0, "ulimit -v leaves it", "raise ulimit -v, of which libraries take " + MegaBytes(kLibraryReserve)},
            &least);
  TakeLimit(RLIMIT_DATA, root, "VmData",
            {0, "ulimit -d leaves it", "raise ulimit -d, of which libraries take " + MegaBytes(kLibraryReserve)},
            &least);
  return least.room();
}

}  // namespace hp
