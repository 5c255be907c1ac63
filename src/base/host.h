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

/// What this host calls itself (gethostname), and the user as whom this process runs: its name, or its number where it
/// has none.
std::string HostName();
std::string UserName();

/// A host without the brackets that an IPv6 address has in front of a port: "[::1]" is "::1". Others stay as they are.
std::string BareHost(const std::string& host);

/// "HOST:PORT", with an IPv6 address in brackets: "[::1]:29500". For messages, and for getaddrinfo's users.
std::string HostPort(const std::string& host, int port);

/// Reads "HOST:PORT", "[ADDRESS]:PORT" or ":PORT". @param flag names it in messages.
/// @return kInvalidArgument: it is of another form.
Status ParseHostPort(const std::string& flag, const std::string& text, std::string* host, int* port);

/// This host's own address on an interface. An interface may have several, of both families: the one that others dial
/// wins, then those of its family, then those that are not link-local, then the first.
/// @param interface its name ("eth0"), or the network that it is in ("10.0.0.0/8", "fd00::/8").
/// @param dialled name or address under which others reach this host; empty: unknown. May ask a name server.
/// @return kInvalidArgument: none fits; the message has all addresses.
StatusOr<std::string> OwnAddressOn(const std::string& interface, const std::string& dialled = "");

/// The interface of this host that has a numeric address; empty: none has.
std::string InterfaceOf(const std::string& address);

/// This host's own address on the way to another one, as the routes say; nothing is sent.
/// @param host name or address. @return empty: there is no way.
std::string OwnAddressToward(const std::string& host);

/// Whether an address is reached from here or from private networks alone: loopback, link-local, RFC 1918, RFC 4193,
/// RFC 6598. @param address numeric; another text is not private.
bool IsPrivateAddress(const std::string& address);

/// Whether a host name or address, as somebody wrote it, stands for loopback addresses alone. An empty one, which means
/// all addresses, does not. May block as ResolveHost.
bool IsLoopbackHost(const std::string& host);

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

/// Memory of this process that is in the host's memory now, in bytes; 0: the system does not say.
int64_t ResidentBytes();

}  // namespace hp
