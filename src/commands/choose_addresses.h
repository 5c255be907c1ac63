#pragma once

#include "hp/status.h"
#include "proto/rendezvous.pb.h"

#include <string>
#include <vector>

namespace hp {

/// Which address of each process the table names, of those that it says it may be reached by, the best first: the first
/// one of a kind that serves all. Loopback addresses serve if all have one and are on one host; those of IPv4 or IPv6
/// if all have one of that family.
/// @param due each with at least one address, of which it listens on the first alone, or on all (`listen`).
/// @return by process. kFailedPrecondition: no kind serves all, and which process lacks one.
StatusOr<std::vector<std::string>> ChooseAddresses(const std::vector<NodeRecord>& due);

}  // namespace hp
