#pragma once

#include "hp/status.h"
#include "proto/rendezvous.pb.h"

#include <string>
#include <vector>

namespace hp {

struct ChosenAddresses {
  std::vector<std::string> addresses;  // by process
  std::string why;                     // for the log: which network, and how users choose otherwise
};

/// Which address of each process the table names, of those that it says it may be reached by, the best first: that in a
/// network in which all have one. Of several networks that which stands first in their lists, by the sum of its
/// positions there, and of equal ones that whose text is less. A network in which processes of two hosts have the same
/// address is not one but two, such as those that Docker makes on each host, and does not count; nor does a link-local
/// one.
///
/// Where no network has all, or not all say their networks, routers may lead from one to the other: then it is the
/// first address of a kind that serves all. Loopback addresses serve if all have one and are on one host; those of IPv4
/// or IPv6 if all have one of that family.
///
/// A network in which all are is preferred to one that routers may join, even where it stands behind in their lists:
/// nobody here knows of routers, and a slow network that all are in trains where a fast one that only some reach does
/// not.
/// @param due each with at least one address, of which it listens on the first alone, or on all (`listen`).
/// @return kFailedPrecondition: no kind serves all, and which process lacks one.
StatusOr<ChosenAddresses> ChooseAddresses(const std::vector<NodeRecord>& due);

}  // namespace hp
