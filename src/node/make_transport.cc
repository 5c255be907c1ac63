#include "node/make_transport.h"

#include "base/cores.h"
#include "base/environment.h"
#include "base/host.h"
#include "transport/tcp/tcp_transport.h"

#include "glog/logging.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace hp {
namespace {

constexpr auto kNamePause = std::chrono::milliseconds(500);
constexpr char kCpu[] = "cpu";

GpuDirect GpuDirectOf(VerbsConfig::GpuDirect way) {
  switch (way) {
    case VerbsConfig::DMABUF:
      return GpuDirect::kDmaBuf;
    case VerbsConfig::PEERMEM:
      return GpuDirect::kPeermem;
    case VerbsConfig::STAGED:
      return GpuDirect::kStaged;
    case VerbsConfig::ANY:
      break;
  }
  return GpuDirect::kAuto;
}

StatusOr<RelaxedOrdering> OrderingOf(int value) {
  switch (value) {
    case 0:
      return RelaxedOrdering::kOff;
    case 1:
      return RelaxedOrdering::kOn;
    case 2:
      return RelaxedOrdering::kAuto;
    default:
      return InvalidArgument("pci_relaxed_ordering is %d; expected 0, 1 or 2", value);
  }
}

StatusOr<int> ParseNumber(const char* name, const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return InvalidArgument("the environment variable %s is \"%s\"; expected a number", name, text.c_str());
}

/// Without a token whoever reaches the port from the right address may speak for a node, or read the weights.
void WarnOfOpenPort(const std::string& listen) {
  const bool any = listen == "0.0.0.0" || listen == "::";
  for (const std::string& address : any ? OwnAddresses() : ResolveHost(listen)) {
    if (IsPrivateAddress(address)) continue;
    LOG(WARNING) << "listening on " << address << ", which is no private address, without a job token: anybody who "
                 << "reaches it can read the weights (--token_file; hproute --new_token)";
    return;
  }
}

/// In clusters a host's own name may come a while after its processes.
void WaitForName(const std::string& host, int64_t limit_ms) {
  const int64_t until_ns = Clock::Real()->NowNs() + limit_ms * kNsPerMs;
  bool told = false;
  while (ResolveHost(host).empty() && Clock::Real()->NowNs() < until_ns) {
    if (!told) LOG(INFO) << "waiting for this host's name to be known: " << host;
    told = true;
    std::this_thread::sleep_for(kNamePause);
  }
}

}  // namespace

Status NoTokenForTls(const RoutingTable& table) {
  return InvalidArgument("%s: transport { tls: true } needs the job's token: --token_file=FILE (hproute --new_token)",
                         table.path().c_str());
}

StatusOr<std::string> ListenAddress(const NodeInfo& node, const HostSettings& host) {
  if (!host.interface.empty()) return OwnAddressOn(host.interface, node.host);
  return node.listen.empty() ? node.host : node.listen;
}

ConnectOptions ConnectOptionsFor(const RoutingTable& table, Rank rank, const HostSettings& host,
                                 const std::string& listen) {
  ConnectOptions options;
  options.rank = rank;
  for (const NodeInfo& node : table.nodes()) options.peers.push_back({node.rank, node.name, node.host, node.port});
  const bool any = listen == "0.0.0.0" || listen == "::";
  options.bind_host = listen.empty() ? table.node(rank).host : any ? "" : listen;
  const int wait_s = host.wait_s > 0 ? host.wait_s : table.config().transport().connect_timeout_s();
  options.connect_deadline_ms = int64_t{wait_s} * 1000;
  options.keys = host.keys;
  // Nodes that get their table in the same moment dial all at once, and may all be on one host.
  options.max_handshakes += table.size();
  options.max_handshakes_per_host += table.size();
  options.tls = table.config().transport().tls();
  // A thread that polls takes the processor from the node that it waits for.
  const auto on_host = std::count_if(table.nodes().begin(), table.nodes().end(),
                                     [&](const NodeInfo& node) { return node.host == table.node(rank).host; });
  if (on_host > AvailableCores()) options.spin_ns = 0;
  return options;
}

StatusOr<VerbsSettings> VerbsSettingsFor(const RoutingTableConfig& table, const HostDevices& host,
                                         const std::function<std::string(const char*)>& environment) {
  const VerbsConfig& config = table.transport().verbs();
  VerbsSettings settings;
  settings.hca = !host.hca.empty() ? host.hca : config.has_hca() ? config.hca() : environment("NCCL_IB_HCA");
  settings.gid_index = host.gid_index != HostDevices::kNotSet ? host.gid_index : config.gid_index();
  const std::string index = environment("NCCL_IB_GID_INDEX");
  if (host.gid_index == HostDevices::kNotSet && !config.has_gid_index() && !index.empty()) {
    HP_ASSIGN_OR_RETURN(settings.gid_index, ParseNumber("NCCL_IB_GID_INDEX", index));
  }
  settings.roce_version = config.roce_version_num();
  settings.traffic_class = config.tc();
  settings.service_level = config.sl();
  settings.pkey_index = config.pkey();
  settings.timeout = config.timeout();
  settings.retry_count = config.retry_cnt();
  settings.rnr_retry = config.rnr_retry();
  settings.qps_per_connection = config.qps_per_connection();
  settings.setup = config.setup() == VerbsConfig::RDMACM ? QpSetup::kRdmaCm : QpSetup::kTcp;
  HP_ASSIGN_OR_RETURN(settings.relaxed_ordering, OrderingOf(config.pci_relaxed_ordering()));
  settings.gpudirect_level = config.net_gdr_level();
  settings.gpudirect = GpuDirectOf(config.gpudirect());
  HP_RETURN_IF_ERROR(CheckVerbsSettings(settings));
  return settings;
}

std::set<Rank> CopyPeers(const RoutingTable& table, Rank rank) {
  std::set<Rank> peers;
  if (table.config().transport().device_copies() == TransportConfig::OFF) return peers;
  const NodeInfo& own = table.node(rank);
  for (const NodeInfo& node : table.nodes()) {
    const bool alike = own.device == kCpu ? node.device == kCpu && node.host == own.host : node.device != kCpu;
    if (node.rank != rank && alike) peers.insert(node.rank);
  }
  return peers;
}

std::unique_ptr<CopyTransport> MakeCopyTransport(const RoutingTable& table, Rank rank, DeviceCopier* copier,
                                                 size_t least_host_copy, Transport* beneath, CopyCallbacks callbacks) {
  CopyOptions options;
  options.peers = CopyPeers(table, rank);
  const bool as_in_table = copier != nullptr && copier->is_host() == (table.node(rank).device == kCpu);
  if (!as_in_table || options.peers.empty()) return nullptr;
  options.copier = copier;
  options.thread_name = "copies-" + std::to_string(rank);
  if (copier->is_host()) options.min_bytes = least_host_copy;
  options.register_beneath = table.config().transport().kind() == TransportConfig::VERBS;
  const std::string otherwise = copier->is_host()          ? "over the network"
                                : options.register_beneath ? "over RDMA"
                                                           : "through pinned memory";
  const std::string copied =
      copier->is_host() ? Format("from memory to memory, from %zu KiB on", least_host_copy >> 10) : "peer copy";
  options.on_settled = [&table, device = copier->name(), otherwise, copied, settled = std::move(callbacks.on_settled)](
                           Rank peer, const CopyRoad& road) {
    LOG(INFO) << device << " to " << table.node(peer).name << " (" << road.peer_device
              << "): " << (road.why_not.ok() ? copied : otherwise + ", because " + road.why_not.message());
    settled(peer);
  };
  options.on_failure = std::move(callbacks.on_failure);
  return std::make_unique<CopyTransport>(beneath, std::move(options));
}

StatusOr<std::unique_ptr<TcpListener>> ListenAsNode(const RoutingTable& table, Rank rank, const HostSettings& host,
                                                    std::optional<int> port) {
  const NodeInfo& node = table.node(rank);
  HP_ASSIGN_OR_RETURN(const std::string address, ListenAddress(node, host));
  WaitForName(address, ConnectOptionsFor(table, rank, host).connect_deadline_ms);
  return TcpListener::Bind(address, port.value_or(node.port));
}

StatusOr<std::unique_ptr<Transport>> MakeNodeTransport(const RoutingTable& table, Rank rank, const HostSettings& host,
                                                       std::unique_ptr<TcpListener> listener) {
  const TransportConfig& config = table.config().transport();
  HP_ASSIGN_OR_RETURN(const std::string listen, ListenAddress(table.node(rank), host));
  ConnectOptions connect = ConnectOptionsFor(table, rank, host, listen);
  if (config.tls() && !host.keys) return NoTokenForTls(table);
  if (!host.keys) WarnOfOpenPort(listen);
  const bool rdma = config.kind() != TransportConfig::TCP;
  if (config.tls()) {
    LOG(INFO) << "connections are encrypted (TLS 1.3); RDMA and NCCL, which encrypt nothing, "
              << (table.may_send_clear() ? "may be used" : "are not used (clear: ALLOWED in the table allows them)");
  }
  if (!rdma || !table.may_send_clear()) return MakeTcpTransport(std::move(connect), std::move(listener));
  VerbsOptions options;
  options.connect = std::move(connect);
  options.tcp_link = MakeTcpLink;
  if (const auto addresses = ResolveHost(table.node(rank).host); !addresses.empty()) options.address = addresses[0];
  options.connect.spin_ns = int64_t{config.verbs().spin_us()} * 1000;
  options.fall_back = config.kind() == TransportConfig::AUTO;
  StatusOr<VerbsSettings> settings = VerbsSettingsFor(table.config(), host.devices, Environment);
  if (!settings.ok()) return settings.status().Prepend(table.path() + ": transport { verbs }");
  options.settings = *std::move(settings);
  auto transport = MakeVerbsTransport(std::move(options), std::move(listener));
  if (!transport.ok()) {
    return transport.status().Prepend(table.path() + ": transport { kind: VERBS } (kind: AUTO uses TCP in this case)");
  }
  return transport;
}

}  // namespace hp
