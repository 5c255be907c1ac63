#pragma once

#include "hp/status.h"
#include "node/make_transport.h"

#include <ostream>
#include <string>

namespace hp {

/// What `hpnode --doctor` is to do.
struct DoctorOptions {
  HostDevices devices;
  std::string address;  ///< ours, as others know it; empty: unknown
  /// One half of a round trip: wait for the other one at ADDRESS:PORT, or go to the one that waits there. Both empty:
  /// none.
  std::string listen, peer;
};

/// Writes what this host has for RDMA, each finding with what to do about it, and measures the way to another host.
/// @return kFailedPrecondition: something keeps RDMA from working here; kUnavailable: the round trip failed.
Status RunDoctor(const DoctorOptions& options, std::ostream* out);

}  // namespace hp
