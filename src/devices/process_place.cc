#include "devices/process_place.h"

#include "base/host.h"

#include <unistd.h>

#include <filesystem>

namespace hp {

ProcessPlace ThisPlace() {
  std::error_code ignored;
  return {HostId(), std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string(), getpid()};
}

}  // namespace hp
