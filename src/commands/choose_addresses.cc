// That a host is reached from everywhere by an address can't be known here; that it can't be is known of loopback, and
// of a family that the other side lacks. A process puts in front what it was told (--address, --interface), or the
// address from which it reached the rendezvous.
#include "commands/choose_addresses.h"

#include "base/host.h"
#include "base/subnet.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace hp {
namespace {

constexpr char kOtherwise[] = " (--interface=NETWORK or --address=ADDRESS of each node chooses otherwise)";

enum class Kind { kLoopback, kIpv4, kIpv6, kName };
constexpr const char* kOfKind[] = {"on loopback", "the first of IPv4 of each", "the first of IPv6 of each"};

Kind KindOf(const std::string& address) {
  if (address == "::1" || address.starts_with("127.")) return Kind::kLoopback;
  if (address.find(':') != std::string::npos) return Kind::kIpv6;
  return address.find_first_not_of("0123456789.") == std::string::npos ? Kind::kIpv4 : Kind::kName;
}

/// Whether two processes may be on one host; whose id is unknown may be on any.
bool MayShareHost(const NodeRecord& a, const NodeRecord& b) {
  return a.host_id() == b.host_id() || a.host_id() == 0 || b.host_id() == 0;
}

/// Addresses that a process listens on.
int ListenedOn(const NodeRecord& record) { return record.listen().empty() ? 1 : record.address_size(); }

/// The first address of a process that is of the kind; a name may be of either family.
std::optional<std::string> AddressOf(const NodeRecord& record, Kind kind) {
  for (int i = 0; i < ListenedOn(record); ++i) {
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

/// The networks of all processes, by their texts. Not link-local ones: each interface without a router has that network
/// for itself, with addresses that differ.
std::set<std::string> NetworksOf(const std::vector<NodeRecord>& due, bool loopback) {
  std::set<std::string> networks;
  for (const NodeRecord& record : due) {
    for (int i = 0; i < std::min(ListenedOn(record), record.prefix_length_size()); ++i) {
      if (record.prefix_length(i) == 0 || (KindOf(record.address(i)) == Kind::kLoopback) != loopback) continue;
      if (IsInSubnet(record.address(i), "169.254.0.0/16") || IsInSubnet(record.address(i), "fe80::/10")) continue;
      networks.insert(SubnetOf(record.address(i), record.prefix_length(i)));
    }
  }
  networks.erase("");
  return networks;
}

/// Addresses in a network that all processes are in.
struct InNetwork {
  std::string network;
  std::vector<std::string> addresses;
  int positions = 0;  // in the lists of the processes, all together
};

/// The first address of each process in a network; nothing: one has none, or two hosts have the same.
std::optional<InNetwork> AllIn(const std::string& network, const std::vector<NodeRecord>& due) {
  InNetwork found{.network = network, .addresses = {}};
  for (size_t i = 0; i < due.size(); ++i) {
    int own = 0;
    const int count = ListenedOn(due[i]);
    while (own < count && !IsInSubnet(due[i].address(own), network)) ++own;
    if (own == count) return std::nullopt;
    for (size_t other = 0; other < i; ++other) {
      if (found.addresses[other] == due[i].address(own) && !MayShareHost(due[other], due[i])) return std::nullopt;
    }
    found.addresses.push_back(due[i].address(own));
    found.positions += own;
  }
  return found;
}

/// The networks that all are in, the best first.
std::vector<InNetwork> NetworksOfAll(const std::vector<NodeRecord>& due, bool loopback) {
  std::vector<InNetwork> shared;
  for (const std::string& network : NetworksOf(due, loopback)) {
    if (std::optional<InNetwork> found = AllIn(network, due)) shared.push_back(*std::move(found));
  }
  std::stable_sort(shared.begin(), shared.end(),
                   [](const InNetwork& a, const InNetwork& b) { return a.positions < b.positions; });
  return shared;
}

/// @param shared at least one.
ChosenAddresses InBestOf(const std::vector<InNetwork>& shared, const std::vector<NodeRecord>& due) {
  const InNetwork& best = shared[0];
  std::string why = "in " + best.network + ", a network that all are in";
  for (size_t i = 1; i < shared.size(); ++i) why += (i == 1 ? ", as they are in " : ", ") + shared[i].network;
  const auto elsewhere = std::find_if(due.begin(), due.end(), [&best](const NodeRecord& record) {
    return !IsInSubnet(record.address(0), best.network);
  });
  if (elsewhere != due.end()) {
    why += "; " + elsewhere->host_name() + " has " + elsewhere->address(0) +
           " in front, and whether routers lead there from all others is unknown";
  }
  const bool alone = shared.size() == 1 && elsewhere == due.end();
  return {best.addresses, why + (alone ? "" : kOtherwise)};
}

}  // namespace

StatusOr<ChosenAddresses> ChooseAddresses(const std::vector<NodeRecord>& due) {
  // Where only some have loopback in front, they are on the host of the rendezvous, and others are not; where all have,
  // they met on one host.
  const bool all_loopback = std::all_of(
      due.begin(), due.end(), [](const NodeRecord& record) { return KindOf(record.address(0)) == Kind::kLoopback; });
  const std::vector<InNetwork> shared = NetworksOfAll(due, all_loopback);
  if (!shared.empty()) return InBestOf(shared, due);
  // The kinds in the order in which the processes have them, the first process's first.
  std::vector<Kind> kinds;
  for (const NodeRecord& record : due) {
    const Kind kind = KindOf(record.address(0));
    kinds.push_back(kind == Kind::kName ? Kind::kIpv4 : kind);
  }
  for (const Kind kind : {Kind::kIpv4, Kind::kIpv6}) kinds.push_back(kind);
  size_t lacking = 0;
  for (const Kind kind : kinds) {
    if (kind == Kind::kLoopback && !all_loopback) continue;
    if (auto addresses = AllOf(kind, due, &lacking)) {
      return ChosenAddresses{*std::move(addresses), std::string(kOfKind[static_cast<int>(kind)]) +
                                                        ", since no network is known that all are in" + kOtherwise};
    }
  }
  const NodeRecord& record = due[lacking];
  return FailedPrecondition(
      "the node of %s at %s can't be reached by all others: its addresses that it listens on are loopback, or not "
      "of the family that they have; start it with --address=ADDRESS or --interface=NAME",
      record.host_name().c_str(), HostPort(record.address(0), record.port()).c_str());
}

}  // namespace hp
