#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// What CanonicalAddresses calls every address of the host that asks.
constexpr char kThisHost[] = "this host";

/// The numeric addresses of this host's interfaces (getifaddrs), loopback included, without duplicates.
std::vector<std::string> OwnAddresses();

/// The numeric addresses of a host name or address, without duplicates; empty if it is unknown. May ask a name server.
std::vector<std::string> ResolveHost(const std::string& host);

/// The same with loopback and own addresses replaced by kThisHost, so that two names of one host share an entry
/// (`localhost`, 127.0.1.1 and the address of eth0 are one host). A HostResolver.
std::vector<std::string> CanonicalAddresses(const std::string& host);

/// Whether the name means this host.
bool IsThisHost(const std::string& host);

/// Hash of the boot id: the same for all processes of one running kernel, whatever names it has. 0: unknown.
uint64_t HostId();

/// Cores that this process may run on.
int AvailableCores();

}  // namespace hp
