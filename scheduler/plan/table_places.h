#pragma once

#include "hp/status.h"

#include <string>
#include <vector>

namespace hp {

/// Where a node can be placed.
struct NodePlace {
  std::string host;
  std::string device;  ///< "cuda:N", which takes one node; "cpu", which takes any number
};

/// "cpu" or "cuda:N".
bool IsDeviceName(const std::string& name);

/// The places that hproute's list of hosts names, in its order. An entry is HOST, HOST/cpu, HOST/cuda:N or
/// HOST/cuda:N-M, a place for each GPU.
/// @return kInvalidArgument: another entry; or no entry.
StatusOr<std::vector<NodePlace>> PlacesOf(const std::vector<std::string>& hosts);

}  // namespace hp
