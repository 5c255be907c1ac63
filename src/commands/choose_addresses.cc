// That a host is reached from everywhere by an address can't be known here; that it can't be is known of loopback, and
// of a family that the other side lacks. A process puts in front what it was told (--address, --interface), or the
// address from which it reached the rendezvous.
#include "commands/choose_addresses.h"

#include <algorithm>
#include <optional>

namespace hp {
namespace {

enum class Kind { kLoopback, kIpv4, kIpv6, kName };

Kind KindOf(const std::string& address) {
  if (address == "::1" || address.starts_with("127.")) return Kind::kLoopback;
  if (address.find(':') != std::string::npos) return Kind::kIpv6;
  return address.find_first_not_of("0123456789.") == std::string::npos ? Kind::kIpv4 : Kind::kName;
}

/// Whether two processes may be on one host; whose id is unknown may be on any.
bool MayShareHost(const NodeRecord& a, const NodeRecord& b) {
  return a.host_id() == b.host_id() || a.host_id() == 0 || b.host_id() == 0;
}

/// The first address of a process that is of the kind; a name may be of either family.
std::optional<std::string> AddressOf(const NodeRecord& record, Kind kind) {
  const int listened = record.listen().empty() ? 1 : record.address_size();
  for (int i = 0; i < listened; ++i) {
    const Kind own = KindOf(record.address(i));
    if (own == kind || (own == Kind::kName && kind != Kind::kLoopback)) return record.address(i);
  }
  return std::nullopt;
}

/// @param lacking gets the first process without such an address.
std::optional<std::vector<std::string>> AllOf(Kind kind, const std::vector<NodeRecord>& due, size_t* lacking) {
  std::vector<std::string> addresses;
  for (size_t i = 0; i < due.size(); ++i) {
    const std::optional<std::string> address = AddressOf(due[i], kind);
    if (!address || (kind == Kind::kLoopback && !MayShareHost(due[0], due[i]))) {
      *lacking = i;
      return std::nullopt;
    }
    addresses.push_back(*address);
  }
  return addresses;
}

}  // namespace

StatusOr<std::vector<std::string>> ChooseAddresses(const std::vector<NodeRecord>& due) {
  // The kinds in the order in which the processes have them, the first process's first.
  std::vector<Kind> kinds;
  for (const NodeRecord& record : due) {
    const Kind kind = KindOf(record.address(0));
    kinds.push_back(kind == Kind::kName ? Kind::kIpv4 : kind);
  }
  for (const Kind kind : {Kind::kIpv4, Kind::kIpv6}) kinds.push_back(kind);
  // Where only some have loopback in front, they are on the host of the rendezvous, and others are not.
  const bool all_loopback = std::all_of(
      due.begin(), due.end(), [](const NodeRecord& record) { return KindOf(record.address(0)) == Kind::kLoopback; });
  size_t lacking = 0;
  for (const Kind kind : kinds) {
    if (kind == Kind::kLoopback && !all_loopback) continue;
    if (auto addresses = AllOf(kind, due, &lacking)) return *std::move(addresses);
  }
  const NodeRecord& record = due[lacking];
  return FailedPrecondition(
      "the node of %s at %s:%d can't be reached by all others: its addresses that it listens on are loopback, or not "
      "of "
      "the family that they have; start it with --address=ADDRESS or --interface=NAME",
      record.host_name().c_str(), record.address(0).c_str(), record.port());
}

}  // namespace hp
