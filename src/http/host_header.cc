#include "http/host_header.h"

#include "base/host.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>

namespace hp {
namespace {

bool IsNumericLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool SameName(const std::string& a, const std::string& b) { return strcasecmp(a.c_str(), b.c_str()) == 0; }

bool IsLocalhostName(const std::string& name) {
  const std::string suffix = ".localhost";
  return SameName(name, "localhost") ||
         (name.size() > suffix.size() && SameName(name.substr(name.size() - suffix.size()), suffix));
}

/// "HOST" or "HOST:PORT" without the port and the brackets of an IPv6 address; empty: neither.
std::string HostOf(const std::string& header) {
  if (header.find('\0') != std::string::npos) return "";
  const size_t bracket = header.rfind(']'), colon = header.rfind(':');
  std::string host = header;
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    const std::string port = header.substr(colon + 1);
    if (port.size() > 5 || !std::all_of(port.begin(), port.end(), [](char c) { return '0' <= c && c <= '9'; }))
      return "";
    host = header.substr(0, colon);
  }
  const std::string bare = BareHost(host);
  if (bare == host && host.find(':') != std::string::npos) return "";  // an IPv6 address stands in brackets
  return bare;
}

}  // namespace

bool IsOwnHostHeader(const std::string& header, const std::string& listens_on) {
  std::string host = HostOf(header);
  if (!host.empty() && host.back() == '.') host.pop_back();  // of the root
  return !host.empty() && (IsNumericLoopback(host) || IsLocalhostName(host) || SameName(host, listens_on));
}

}  // namespace hp
