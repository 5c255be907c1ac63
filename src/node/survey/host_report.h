#pragma once

#include "proto/survey.pb.h"
#include "scheduler/plan/routing_table.h"

#include <string>

namespace hp {

/// What this host has now: processors and memory that this process may use, the disk of `folder` (where that is none:
/// of the working directory), and the interface of `address` (numeric; empty: unknown). `host` and `node` are the
/// caller's. Any thread.
HostReport ReportOfThisHost(const std::string& address, const std::string& folder);

/// Whether a node on this host's processors is to multiply in bfloat16 if it has convolutions, and it may have some.
bool WantsBFloat16(const RoutingTable& table, const std::string& host);
/// Whether a node on this host is to decode JPEGs on its GPU.
bool WantsJpegDecoder(const RoutingTable& table, const std::string& host);

/// The MTU of the way to a numeric address, as the kernel knows it: that of the interface, or less where a router on
/// the way has reported a smaller one. @return 0: unknown.
int PathMtu(const std::string& address);

/// This host's numeric address on the way to another one's. Empty: there is no way.
std::string AddressTowards(const std::string& address);

}  // namespace hp
