#pragma once

#include <string>

namespace hp {

/// Whether a server that listens on loopback answers a request with this Host header. A web page of a stranger can let
/// its own name resolve to 127.0.0.1 (DNS rebinding); the browser then takes our answers for that page's own, and only
/// the Host header still has the stranger's name. So the names of this host are recognised by their spelling: nothing
/// is resolved. Any port will do, as `ssh -L` and the like have ports of their own.
/// @param header as it was sent: "127.0.0.1:8080", "[::1]", "localhost:9000".
/// @param listens_on host that the server was given, a loopback address or a name of one.
/// @return true: numeric loopback addresses, localhost and names below it (RFC 6761), and `listens_on` itself.
bool IsOwnHostHeader(const std::string& header, const std::string& listens_on);

}  // namespace hp
