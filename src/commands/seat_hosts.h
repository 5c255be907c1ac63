#pragma once

#include "proto/planning.pb.h"
#include "proto/rendezvous.pb.h"

#include <map>
#include <string>
#include <vector>

namespace hp {

/// How a plan calls the host of each process: the same for all processes of one running system. The host's own name,
/// or what a key of `profiles` calls it; where that is not unique, or no name for a file, a name made up.
/// @param profiles paths of profiles by the host that each is of, as IsOnHost reads it.
/// @return by process.
std::vector<std::string> PlannedHostNames(const std::vector<NodeRecord>& due,
                                          const std::map<std::string, std::string>& profiles);

/// Each host once, with what its processes share: its processors, memory and link, and its profile. Of processes that
/// say different numbers, whose containers may have limits of their own, the largest counts.
/// @param names PlannedHostNames.
HostsConfig DescribedHosts(const std::vector<NodeRecord>& due, const std::vector<std::string>& names,
                           const std::map<std::string, std::string>& profiles);

}  // namespace hp
