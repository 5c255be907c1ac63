#pragma once

#include "hp/status.h"

#include <string>
#include <vector>

namespace hp {

/// The device of a node whose GPU is the one that its scheduler gives to its task.
constexpr char kOwnGpu[] = "cuda";

/// A host and a device on it where a node can run.
struct NodePlace {
  std::string host;    ///< name or address
  std::string device;  ///< "cuda:N" or kOwnGpu, which take one node; "cpu", which takes any number
};

/// Whether `name` is "cpu", kOwnGpu or "cuda:N", N from 0 to 1023. Not whether such a device exists.
bool IsDeviceName(const std::string& name);

/// The places that the entries of hproute's --hosts name, in their order. An entry is HOST or HOST/cpu (the host's
/// CPUs), HOST/cuda (the GPU that a scheduler gives to a task there), HOST/cuda:N (one GPU) or HOST/cuda:N-M (a place
/// for each of these GPUs).
/// @return kInvalidArgument: an entry of another form, or no entry at all.
StatusOr<std::vector<NodePlace>> PlacesOf(const std::vector<std::string>& hosts);

/// Leaves out the entries of hosts. @param names of hosts that are among them.
/// @return the entries that are left; kInvalidArgument: a host is not there, or no entry is left.
StatusOr<std::vector<std::string>> ExcludeHosts(const std::vector<std::string>& names,
                                                const std::vector<std::string>& entries);

}  // namespace hp
