#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// Stands for every address of this host in the result of CanonicalAddresses.
constexpr char kThisHost[] = "this host";

/// The numeric addresses of this host's interfaces (getifaddrs), IPv4 and IPv6, loopback included, without duplicates;
/// empty if the system does not say. A link-local IPv6 address carries its interface ("fe80::1%eth0").
std::vector<std::string> OwnAddresses();

/// This host's own address on an interface. @param interface its name ("eth0"), or the network that it is in
/// ("10.0.0.0/8", "fd00::/8"). @return the first that fits; kInvalidArgument: none does; the message has all addresses.
StatusOr<std::string> OwnAddressOn(const std::string& interface);

/// This host's own address on the way to another one, as the routes say; nothing is sent.
/// @param host name or address. @return empty: there is no way.
std::string OwnAddressToward(const std::string& host);

/// Whether an address is reached from here or from private networks alone: loopback, link-local, RFC 1918, RFC 4193,
/// RFC 6598. @param address numeric; another text is not private.
bool IsPrivateAddress(const std::string& address);

/// The numeric addresses of a host name or address, without duplicates; empty if it is unknown. May ask a name server
/// (getaddrinfo) and block for its timeout.
std::vector<std::string> ResolveHost(const std::string& host);

/// ResolveHost with loopback and own addresses replaced by kThisHost, so that two names of one host share an entry:
/// `localhost`, 127.0.1.1 and the address of eth0 are one host. It is the HostResolver of scheduler/plan outside tests.
std::vector<std::string> CanonicalAddresses(const std::string& host);

/// Whether one of the name's addresses is this host's. May block as ResolveHost.
bool IsThisHost(const std::string& host);

/// Hash of the kernel's boot id: equal for all processes of one running kernel, also in different containers, whatever
/// host names they see. 0: unknown.
uint64_t HostId();

}  // namespace hp
