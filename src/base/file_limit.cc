#include "base/file_limit.h"

#include <sys/resource.h>

namespace hp {
namespace {

constexpr int64_t kOwnFiles = 128;  // logs, databases, snapshots, devices, connections of strangers

}  // namespace

Status RaiseFileLimit(int64_t files, const std::string& what) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return OkStatus();
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  const auto needed = static_cast<rlim_t>(files + kOwnFiles);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return OkStatus();
  return ResourceExhausted("%s need %lld open files, and this process may have %lld (ulimit -n)", what.c_str(),
                           static_cast<long long>(needed), static_cast<long long>(limit.rlim_cur));
}

}  // namespace hp
