#include "commands/find_table.h"

#include "base/cores.h"
#include "base/environment.h"
#include "base/host.h"
#include "base/memory_room.h"
#include "base/subnet.h"
#include "commands/run_store.h"
#include "node/server_transport.h"

#include "rendezvous/server_link.h"
#include "rendezvous/store_rendezvous.h"
#include <glog/logging.h>

#include <algorithm>

namespace hp {
namespace {

constexpr int kTableWaitS = 300;

// Those beside --conv, --fc, --ps and --plan, which say that a node makes the table.
const char* OtherTableFlag(const TableOptions& options) { return FirstGivenBut(options, {"plan", "conv", "fc", "ps"}); }

/// Whether a node that asks a rendezvous may make the table by its flags.
Status CheckPlanFlags(const TableFlags& flags, const HostSettings& host) {
  if (flags.plan.plans()) {
    if (flags.plan.table.tls && !host.keys) {
      return InvalidArgument("--tls needs the job's token: --token_file=FILE (hproute --new_token)");
    }
    return CheckSeatPlan(flags.plan);
  }
  const char* const other = OtherTableFlag(flags.plan.table);
  if (other == nullptr) return OkStatus();
  return InvalidArgument("--%s is of whoever makes the table: it goes with --conv and --fc, or --plan=auto", other);
}

bool IsLoopback(const std::string& address) { return address == "::1" || address.starts_with("127."); }

/// Where a node listens, and how others reach it.
struct Place {
  std::vector<std::string> addresses;  // that others dial, the best first
  std::string bind;                    // what it listens on; empty: all IPv4 addresses
  std::string listen;                  // NodeRecord::listen
  int dialled_port = 0;                // 0: the port that it listens on
};

/// @param address --address: what leads here from elsewhere, through a translation of addresses perhaps.
StatusOr<Place> PlaceBehind(const std::string& address, const HostSettings& host) {
  Place place;
  std::string dialled = address;
  const bool has_port = std::count(address.begin(), address.end(), ':') == 1 || address.starts_with("[");
  if (has_port) HP_RETURN_IF_ERROR(ParseHostPort("address", address, &dialled, &place.dialled_port));
  if (dialled.empty() || (has_port && place.dialled_port == 0)) {
    return InvalidArgument(
        "--address is \"%s\"; expected an address or name that others dial, or with a port "
        "ADDRESS:PORT",
        address.c_str());
  }
  place.addresses = {dialled};
  const bool ipv6 = dialled.find(':') != std::string::npos;
  place.listen = ipv6 ? "::" : "0.0.0.0";
  place.bind = ipv6 ? "::" : "";
  if (host.interface.empty()) return place;
  HP_ASSIGN_OR_RETURN(place.bind, OwnAddressOn(host.interface, dialled));
  return place;
}

/// By this host's own addresses: on --interface; else, with a token, on all addresses of the family by which it reaches
/// the rendezvous; else on that one.
StatusOr<Place> PlaceByOwnAddresses(const RoutingAddress& routing, const HostSettings& host) {
  Place place;
  if (!host.interface.empty()) {
    HP_ASSIGN_OR_RETURN(place.bind, OwnAddressOn(host.interface));
    place.addresses = {place.bind};
    return place;
  }
  std::vector<std::string>& addresses = place.addresses;
  if (!routing.host.empty()) {
    const std::string toward = OwnAddressToward(routing.host);
    if (!toward.empty()) addresses.push_back(toward);
  }
  std::vector<std::string> own = OwnAddresses();
  std::stable_partition(own.begin(), own.end(), [](const std::string& one) { return !IsLoopback(one); });
  for (const std::string& one : own) {
    if (one.find('%') == std::string::npos && std::count(addresses.begin(), addresses.end(), one) == 0) {
      addresses.push_back(one);
    }
  }
  if (addresses.empty()) return FailedPrecondition("this host has no address that others could dial");
  place.bind = addresses[0];
  if (host.keys) {
    const bool ipv6 = addresses[0].find(':') != std::string::npos;
    std::erase_if(addresses, [ipv6](const std::string& one) { return (one.find(':') != std::string::npos) != ipv6; });
    place.listen = ipv6 ? "::" : "0.0.0.0";
    place.bind = ipv6 ? "::" : "";
  }
  if (addresses.size() > 16) addresses.resize(16);
  return place;
}

StatusOr<NodeRecord> DescribeSelf(const TableFlags& flags, const RoutingAddress& routing, const HostSettings& host,
                                  std::unique_ptr<TcpListener>* listener) {
  HP_ASSIGN_OR_RETURN(const Place place,
                      flags.address.empty() ? PlaceByOwnAddresses(routing, host) : PlaceBehind(flags.address, host));
  HP_ASSIGN_OR_RETURN(*listener, TcpListener::Bind(place.bind, flags.port));
  NodeRecord record;
  record.set_nonce(NewNonce());
  record.set_run_id(flags.run_id);
  record.set_host_name(HostName());
  record.set_host_id(HostId());
  for (const std::string& address : place.addresses) {
    record.add_address(address);
    record.add_prefix_length(PrefixLengthOf(address));
  }
  record.set_listen(place.listen);
  record.set_port(place.dialled_port > 0 ? place.dialled_port : (*listener)->port());
  record.set_role(flags.role);
  record.set_device(flags.device);
  record.set_cores(AvailableCores());
  record.set_memory_mb(std::max<int64_t>(1, HostMemoryTotal().bytes >> 20));
  if (flags.plan.plans()) record.set_request(flags.plan.request());
  // What peers would refuse is said here.
  return ParseNodeRecord(record.SerializeAsString());
}

StatusOr<std::unique_ptr<JobRendezvous>> OpenRendezvous(const TableFlags& flags, const RoutingAddress& routing,
                                                        const std::string& self, const HostSettings& host) {
  if (routing.kind == RoutingAddress::Kind::kServer) {
    return std::unique_ptr<JobRendezvous>(new ServerLink(flags.routing, host.keys, [routing, keys = host.keys] {
      return MakeServerLinkTransport(routing.host, routing.port, keys);
    }));
  }
  HP_ASSIGN_OR_RETURN(RunStore opened, OpenRunStore(routing, flags.run_id, self));
  StoreRendezvousOptions options{.run = opened.run, .keys = host.keys, .wanted = {}, .planner = nullptr, .request = ""};
  if (flags.plan.plans()) {
    options.wanted = NodesWantedBy(flags.plan);
    options.planner = MakeSeatPlanner(flags.plan);
    options.request = flags.plan.request();
  }
  return std::unique_ptr<JobRendezvous>(new StoreRendezvous(std::move(opened.store), options));
}

/// The entry of the table that this process has.
std::string NodeOf(const TableRecord& table, const std::string& nonce) {
  for (const SeatRecord& seat : table.seat()) {
    if (seat.nonce() == nonce) return seat.node();
  }
  return "";
}

Status TakeTable(const TableFlags& flags, const TableRecord& handed, const std::string& from, FoundTable* found) {
  RoutingTableConfig config = handed.config();
  if (!flags.plan.solver.empty()) config.set_solver(flags.plan.solver);
  HP_ASSIGN_OR_RETURN(found->table, RoutingTable::Create(config, "table of " + from));
  return OkStatus();
}

}  // namespace

Status CheckFileFlags(const TableFlags& flags) {
  const char* const other = OtherTableFlag(flags.plan.table);
  const char* wrong = !flags.run_id.empty()        ? "run_id"
                      : flags.plan.plans()         ? "conv, --fc, --ps and --plan"
                      : other != nullptr           ? other
                      : !flags.plan.solver.empty() ? "solver"
                      : flags.device != "cpu"      ? "device"
                      : flags.port != 0            ? "port"
                      : !flags.address.empty()     ? "address"
                                                   : nullptr;
  if (wrong == nullptr) return OkStatus();
  return InvalidArgument(
      "--%s: the table is a file, which says that; it goes with --routing=dir://, redis:// or tcp://", wrong);
}

StatusOr<FoundTable> FindTable(const TableFlags& flags, const HostSettings& host) {
  HP_ASSIGN_OR_RETURN(const RoutingAddress routing, ParseRoutingAddress(flags.routing));
  FoundTable found;
  if (routing.kind == RoutingAddress::Kind::kFile) {
    HP_RETURN_IF_ERROR(CheckFileFlags(flags));
    HP_ASSIGN_OR_RETURN(found.table, RoutingTable::Load(routing.path));
    return found;
  }
  HP_RETURN_IF_ERROR(CheckPlanFlags(flags, host));
  HP_ASSIGN_OR_RETURN(NodeRecord record, DescribeSelf(flags, routing, host, &found.listener));
  HP_ASSIGN_OR_RETURN(std::unique_ptr<JobRendezvous> rendezvous, OpenRendezvous(flags, routing, record.nonce(), host));
  const int64_t wait_ms = int64_t{host.wait_s > 0 ? host.wait_s : kTableWaitS} * 1000;
  HP_ASSIGN_OR_RETURN(const RendezvousAnswer answer, AwaitTable(rendezvous.get(), record, wait_ms));
  found.why = rendezvous->name() + ": " + answer.text();
  if (answer.kind() == RendezvousAnswer::REFUSED) return FailedPrecondition("%s", found.why.c_str());
  if (answer.kind() == RendezvousAnswer::NOT_NEEDED) return found;
  HP_RETURN_IF_ERROR(TakeTable(flags, answer.table(), rendezvous->name(), &found));
  found.start.run = "run \"" + answer.table().run_id() + "\"";
  found.start.number = answer.table().incarnation();
  found.node = NodeOf(answer.table(), record.nonce());
  if (found.node.empty()) found.listener = nullptr;  // a table for whoever asks has its own ports
  if (!found.node.empty() && !flags.node.empty() && flags.node != found.node) {
    return InvalidArgument("--node=%s: %s has made this process %s; leave --node out", flags.node.c_str(),
                           rendezvous->name().c_str(), found.node.c_str());
  }
  LOG(INFO) << rendezvous->name() << ": a table of " << found.table->size() << " nodes, incarnation "
            << answer.table().incarnation() << (found.node.empty() ? "" : "; this is " + found.node);
  record.set_incarnation(answer.table().incarnation());
  record.set_state(NodeRecord::RUNNING);
  found.attendance = std::make_unique<Attendance>(std::move(rendezvous), record);
  return found;
}

}  // namespace hp
