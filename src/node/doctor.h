#pragma once

#include "hp/status.h"
#include "node/make_transport.h"

#include <ostream>
#include <string>

namespace hp {

/// What `hpnode --doctor` is to do.
struct DoctorOptions {
  HostDevices devices;  ///< which RDMA devices to look at; empty: all
  std::string address;  ///< ours, as others know it: tells which device and GID are meant; empty: unknown
  /// The two ends of a measurement, each ADDRESS:PORT: `listen` waits there for the other host, `peer` connects to the
  /// host that waits there. At most one of them; both empty: nothing is measured.
  std::string listen, peer;
};

/// Writes what this host has for RDMA, a line for each finding and one with advice where there is any. With `listen` or
/// `peer` also measures latency and bandwidth to another host by RDMA, which the end with `peer` prints. Waits up
/// to 5 minutes for the other host; changes nothing on this one.
/// @return kFailedPrecondition: a finding keeps RDMA from working here, or no device is usable; kInvalidArgument: an
/// option; kUnavailable, kDeadlineExceeded: the measurement failed.
Status RunDoctor(const DoctorOptions& options, std::ostream* out);

}  // namespace hp
