#pragma once

#include "hp/status.h"
#include "proto/planning.pb.h"
#include "scheduler/planner/layer_time.h"

#include <cstdint>
#include <memory>
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
  int nodes = 1;  ///< that its processors are divided among: so many places on "cpu"
  /// Whether the file does; else they are defaults.
  bool says_memory = false, says_cores = false, says_link = false;
};

/// A place for a node: a device of a host.
struct HostPlace {
  int host = 0;              ///< index into Hosts::hosts
  std::string device;        ///< "cpu" or "cuda:N"
  int64_t memory_bytes = 0;  ///< of a device of its own; of "cpu" its part of the host's
  ComputeSpeed speed;
  std::string profile_path;                          ///< file, as it can be opened; empty: none
  std::shared_ptr<const Profile> profile = nullptr;  ///< LoadProfiles
  double scale = 1;                                  ///< how much slower it is than the profile's host
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
StatusOr<Hosts> HostsOf(const HostsConfig& written, const std::string& path);

/// Reads a hosts.prototxt. Errors as ReadTextProto's and HostsOf's.
StatusOr<Hosts> ReadHosts(const std::string& path);

/// Hosts that are alike.
/// @param entries as PlacesOf reads them. @param like their figures; its name and devices are not used.
/// @return the errors of PlacesOf and HostsOf.
StatusOr<Hosts> LikeHosts(const std::vector<std::string>& entries, const HostConfig& like);

/// Leaves hosts out.
/// @param names of hosts that are there. @return kInvalidArgument: one is not, or none is left.
Status ExcludeHosts(const std::vector<std::string>& names, Hosts* hosts);

/// Reads the profiles that places name, and gives those that name none the one of `path`: its times are of the host
/// that it names, or else of the first place, and the others' follow by their gflops.
/// @param path empty: there is none. @param net,sample that the profiles must be of.
/// @return the errors of Profile::Read and CheckNet.
Status LoadProfiles(const std::string& path, const caffe::NetParameter& net, const SampleShape& sample, Hosts* hosts);

}  // namespace hp
