#pragma once

#include "hp/status.h"

#include <string>
#include <vector>

namespace hp {

// Slurm's compressed lists, as SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE hold them. `scontrol show hostnames` expands
// the first too, but it is not in every container, and the second has no program at all; so it is done here.

/// The hosts of a host list, in their order: "a[1-2,07],b" is a1, a2, a07, b; of several brackets in one name, the last
/// counts up first. @return kInvalidArgument: it is no host list, or one of more than 100,000 hosts.
StatusOr<std::vector<std::string>> ExpandHostList(const std::string& list);

/// The numbers of a list of counts: "2(x3),1" is 2, 2, 2, 1. @return kInvalidArgument: it is no such list.
StatusOr<std::vector<int>> ExpandCounts(const std::string& counts);

}  // namespace hp
