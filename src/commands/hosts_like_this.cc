#include "commands/hosts_like_this.h"

#include "base/cores.h"
#include "base/format.h"
#include "base/memory_room.h"
#include "proto/planning.pb.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>

namespace hp {

StatusOr<Hosts> HostsLikeThis(const std::vector<std::string>& entries, std::string* note) {
  HostConfig like;
  like.set_cores(AvailableCores());
  like.set_memory_mb(std::clamp<int64_t>(HostMemoryTotal().bytes >> 20, 1, kMaxMemoryMb));
  *note = Format(
      "hosts: taken to be like this one (%d cores, %s) with links of %g Gbit/s; --hosts=FILE.prototxt says "
      "more\n",
      like.cores(), MegaBytes(static_cast<size_t>(like.memory_mb()) << 20).c_str(), like.link_gbit_per_s());
  return LikeHosts(entries, like);
}

}  // namespace hp
