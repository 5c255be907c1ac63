#include "rendezvous/address.h"

#include "base/format.h"
#include "base/host.h"

#include "rendezvous/run_id.h"

namespace hp {
namespace {

constexpr char kForms[] = "a table's file, dir:///shared/path, tcp://HOST:PORT or redis://HOST:PORT/RUN_ID";

}  // namespace

StatusOr<RoutingAddress> ParseRoutingAddress(const std::string& text) {
  RoutingAddress address;
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string::npos) {
    address.path = text;
    return address;
  }
  const std::string scheme = text.substr(0, scheme_end), rest = text.substr(scheme_end + 3);
  if (scheme == "dir") {
    if (!rest.starts_with("/")) {
      return InvalidArgument("--routing=%s: expected an absolute path, dir:///shared/path", text.c_str());
    }
    address.kind = RoutingAddress::Kind::kFolder;
    address.path = rest;
    return address;
  }
  if (scheme != "tcp" && scheme != "redis") {
    return InvalidArgument("--routing=%s: expected %s", text.c_str(), kForms);
  }
  address.kind = scheme == "tcp" ? RoutingAddress::Kind::kServer : RoutingAddress::Kind::kRedis;
  const size_t slash = rest.find('/');
  HP_RETURN_IF_ERROR(ParseHostPort("routing", rest.substr(0, slash), &address.host, &address.port));
  if (address.host.empty() || address.port == 0) {
    return InvalidArgument("--routing=%s: expected a host and a port", text.c_str());
  }
  if (slash != std::string::npos) address.run_id = rest.substr(slash + 1);
  if (scheme == "tcp" && slash != std::string::npos) {
    return InvalidArgument("--routing=%s: nothing follows the port; --run_id has the run's id", text.c_str());
  }
  if (!address.run_id.empty()) HP_RETURN_IF_ERROR(CheckRunId(address.run_id).Prepend("--routing=" + text));
  return address;
}

}  // namespace hp
