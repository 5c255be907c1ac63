#pragma once

#include "hp/status.h"
#include "proto/planning.pb.h"
#include "scheduler/planner/layer_time.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hp {

/// A host of a HostsConfig: what its nodes share.
struct HostInfo {
  std::string name;
  double link_bytes_per_second = 0;  ///< each way, both at once
  double latency_s = 0;              ///< one way
  int64_t memory_bytes = 0;          ///< of all its nodes together
  int cores = 1;
};

/// A place for a node: a device of a host.
struct HostPlace {
  int host = 0;              ///< index into Hosts::hosts
  std::string device;        ///< "cpu" or "cuda:N"
  int64_t memory_bytes = 0;  ///< of a device of its own; of "cpu" the host's
  ComputeSpeed speed;
  std::string profile;  ///< file, as it can be opened; empty: none
};

/// The hosts that a plan may use, checked.
struct Hosts {
  std::vector<HostInfo> hosts;
  std::vector<HostPlace> places;  ///< in the order of the hosts, at least one each
};

/// Checks a HostsConfig and fills in what it leaves out.
/// @param path stands in messages; relative profiles are looked up beside it.
/// @return kInvalidArgument: no host, a name that is missing or appears twice, a number out of range (a speed of 0, no
/// memory), or a device of another form; names the host, the field, and what was expected.
StatusOr<Hosts> HostsOf(const HostsConfig& config, const std::string& path);

/// Reads a hosts.prototxt. Errors as ReadTextProto's and HostsOf's.
StatusOr<Hosts> ReadHosts(const std::string& path);

}  // namespace hp
