#pragma once

#include "hp/status.h"
#include "scheduler/planner/hosts.h"

#include <string>
#include <vector>

namespace hp {

/// Hosts of which only the names are known, each taken to have the cores and the memory of this one, and links of
/// hosts.prototxt's default.
/// @param entries HOST or HOST/DEVICE, as PlacesOf reads them. @param note gets a line that says so.
/// @return the errors of LikeHosts.
StatusOr<Hosts> HostsLikeThis(const std::vector<std::string>& entries, std::string* note);

}  // namespace hp
