#include "commands/plan_seats.h"

#include "base/words.h"
#include "commands/choose_addresses.h"
#include "commands/describe.h"
#include "commands/plan_table.h"
#include "commands/seat_hosts.h"
#include "proto/text.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_maker.h"
#include "scheduler/planner/layer_time.h"

#include <glog/logging.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

namespace hp {
namespace {

constexpr int kMostSeats = 1024;

// Where numbers of nodes are given, places are named by who asked, since several may be on one host.
std::string AskerName(size_t index) { return "asker-" + std::to_string(index); }

/// Paths of the profiles by the host that each names.
StatusOr<std::map<std::string, std::string>> ProfilesOf(const SeatPlanFlags& flags) {
  std::map<std::string, std::string> paths;
  for (const std::string& path : SplitList(flags.table.profile)) {
    HP_ASSIGN_OR_RETURN(const Profile profile, Profile::Read(path));
    const auto [it, added] = paths.try_emplace(profile.host(), path);
    if (added) continue;
    return InvalidArgument("--profile: %s and %s are both of host \"%s\"", it->second.c_str(), path.c_str(),
                           profile.host().c_str());
  }
  return paths;
}

struct ShareOfHost {
  std::string host;
  int share = 1;
};

StatusOr<std::vector<ShareOfHost>> SharesOf(const TableOptions& table) {
  std::vector<ShareOfHost> shares;
  for (const std::string& item : SplitList(table.shares)) {
    const size_t colon = item.rfind(':');
    const std::string host = item.substr(0, colon);
    const bool in_brackets = host.starts_with('[') && host.ends_with(']');
    if (colon == std::string::npos || host.empty() ||
        (!in_brackets && host.find_first_of(":[]") != std::string::npos)) {
      return InvalidArgument(
          "--shares has \"%s\": nodes ask in any order; expected HOST:SHARE,..., HOST being a host's name or address "
          "(an IPv6 address in brackets)",
          item.c_str());
    }
    HP_ASSIGN_OR_RETURN(const std::vector<int> share,
                        NumbersOfFlag("shares", item.substr(colon + 1), "HOST:SHARE with a number"));
    if (share.size() != 1 || share[0] < 1) {
      return InvalidArgument("--shares has \"%s\"; expected HOST:SHARE with a share of 1 or more", item.c_str());
    }
    shares.push_back({host, share[0]});
  }
  return shares;
}

/// The share of each node of the first conv stage; empty: all alike.
StatusOr<std::vector<int>> SharesOfNodes(const TableOptions& table, size_t nodes, const std::vector<NodeRecord>& due) {
  HP_ASSIGN_OR_RETURN(const std::vector<ShareOfHost> hosts, SharesOf(table));
  if (hosts.empty()) return std::vector<int>();
  std::vector<int> shares(nodes, 1);
  for (const ShareOfHost& host : hosts) {
    int there = 0;
    for (size_t i = 0; i < nodes; ++i) {
      if (!IsOnHost(due[i], host.host)) continue;
      shares[i] = host.share;
      ++there;
    }
    // Where there is none, another host has taken its place perhaps; a share changes how fast, not what.
    LOG_IF(WARNING, there == 0) << "--shares: no node of the first conv stage is on host \"" << host.host << "\"";
    LOG_IF(INFO, there > 0) << "--shares: " << there << " conv node(s) of host \"" << host.host << "\" have share "
                            << host.share;
  }
  return shares;
}

/// @param names PlannedHostNames.
StatusOr<RoutingTableConfig> PlannedConfig(const SeatPlanFlags& flags, const std::vector<NodeRecord>& due,
                                           const std::vector<std::string>& names,
                                           const std::map<std::string, std::string>& profiles,
                                           const std::string& solver_in_table) {
  for (const auto& [host, path] : profiles) {
    if (std::count(names.begin(), names.end(), host) > 0) continue;
    LOG(WARNING) << "--profile: " << path << " is of host \"" << host << "\", which no node that asks is on";
  }
  PlanFlags plan;
  plan.solver = flags.solver;
  plan.solver_in_table = solver_in_table;
  plan.described = DescribedHosts(due, names, profiles);
  if (!profiles.empty()) plan.profile = SplitList(flags.table.profile)[0];  // of the hosts that have none of their own
  plan.tls = flags.table.tls;
  plan.per_replica = flags.table.batch_per_replica;
  HP_ASSIGN_OR_RETURN(plan.precision, PrecisionOf(flags.table.precision));
  HP_ASSIGN_OR_RETURN(plan.wire_precision, WirePrecisionOf(flags.table));
  plan.job = flags.table.job;
  plan.sample = flags.table.sample;
  plan.inputs = flags.inputs;
  HP_ASSIGN_OR_RETURN(PlannedTable planned, PlanTable(plan));
  LOG(INFO) << "planned:\n" << planned.reasons;
  return std::move(planned.config);
}

StatusOr<RoutingTableConfig> CountedConfig(const SeatPlanFlags& flags, const std::vector<NodeRecord>& due,
                                           const std::string& solver_in_table) {
  HP_ASSIGN_OR_RETURN(TableRequest request, RequestOfOptions(flags.table));
  request.solver = solver_in_table;
  HP_ASSIGN_OR_RETURN(request.shares, SharesOfNodes(flags.table, static_cast<size_t>(request.conv[0]), due));
  for (size_t i = 0; i < due.size(); ++i) request.hosts.push_back(AskerName(i) + "/" + due[i].device());
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter solver, ReadSolver(flags.solver));
  HP_ASSIGN_OR_RETURN(const caffe::NetParameter net, NetOfSolver(solver));
  HP_ASSIGN_OR_RETURN(RoutingTableConfig config, MakeTable(request, net));
  const std::vector<std::string> faults = CheckSolverFit(config, solver);
  if (!faults.empty()) return Status(StatusCode::kInvalidArgument, faults[0]);
  return config;
}

/// Gives each node of the config a process whose place it has.
/// @param planned its hosts are those of PlannedHostNames; else each process is a host.
/// @param name_of the host in the config, by process.
StatusOr<TableRecord> Seat(bool planned, RoutingTableConfig config, const std::vector<NodeRecord>& due,
                           const std::vector<std::string>& name_of) {
  HP_ASSIGN_OR_RETURN(const ChosenAddresses chosen, ChooseAddresses(due));
  LOG(INFO) << "addresses of the nodes: " << chosen.why;
  TableRecord table;
  std::vector<bool> seated(due.size());
  for (NodeConfig& node : *config.mutable_node()) {
    size_t index = 0;
    const auto fits = [&](size_t i) {
      return !seated[i] && node.host() == name_of[i] && (!planned || node.device() == due[i].device());
    };
    while (index < due.size() && !fits(index)) ++index;
    if (index == due.size()) return InternalError("node %s has the place of nobody", node.name().c_str());
    seated[index] = true;
    node.set_host(chosen.addresses[index]);
    if (!due[index].listen().empty()) node.set_listen(due[index].listen());
    node.set_port(due[index].port());
    SeatRecord* seat = table.add_seat();
    seat->set_nonce(due[index].nonce());
    seat->set_node(node.name());
  }
  for (size_t i = 0; i < due.size(); ++i) {
    if (!seated[i]) table.add_unneeded(due[i].nonce());
  }
  HP_RETURN_IF_ERROR(RoutingTable::Create(config, "the nodes that ask").status());
  *table.mutable_config() = std::move(config);
  return table;
}

Status CheckNumbers(const TableOptions& table, const TableRequest& request) {
  if (request.conv.empty()) return InvalidArgument("--conv is empty; expected N, or N1,N2 for two conv stages");
  for (const int replicas : request.conv) {
    if (replicas < 1) return InvalidArgument("--conv is %d; expected at least 1", replicas);
  }
  for (const auto& [flag, stages] : {std::pair("conv", &request.conv), std::pair("fc", &request.fc)}) {
    if (table.plan.empty() || stages->size() < 2) continue;
    return InvalidArgument("--%s asks for %zu stages, and --plan=auto chooses these; expected a number of nodes", flag,
                           stages->size());
  }
  std::vector<int> counts = request.conv;
  counts.insert(counts.end(), request.fc.begin(), request.fc.end());
  counts.push_back(request.ps);
  for (const int nodes : counts) {
    if (nodes >= 0 && nodes <= kMostSeats) continue;
    return InvalidArgument("a number of nodes is %d; expected 0 to %d", nodes, kMostSeats);
  }
  return OkStatus();
}

}  // namespace

std::string SeatPlanFlags::request() const {
  TableOptions shown = table;
  shown.profile.clear();
  for (const std::string& path : SplitList(table.profile)) {
    shown.profile += (shown.profile.empty() ? "" : ",") + std::filesystem::path(path).filename().string();
  }
  return "--solver=" + std::filesystem::path(solver).filename().string() + shown.text();
}

Status CheckSeatPlan(const SeatPlanFlags& flags) {
  HP_RETURN_IF_ERROR(CheckTableOptions(flags.table));
  HP_ASSIGN_OR_RETURN(const TableRequest request, RequestOfOptions(flags.table));
  HP_RETURN_IF_ERROR(CheckNumbers(flags.table, request));
  HP_RETURN_IF_ERROR(ProfilesOf(flags).status());
  HP_ASSIGN_OR_RETURN(const std::vector<ShareOfHost> shares, SharesOf(flags.table));
  if (flags.solver.empty()) return InvalidArgument("--solver=FILE is missing: a table is planned for a solver");
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter solver, ReadSolver(flags.solver));
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, NetOfSolver(solver));
  HP_RETURN_IF_ERROR(CheckBuildable(flags.solver, solver, std::make_shared<const caffe::NetParameter>(std::move(net))));
  const bool plain = request.conv.size() == 1 && request.fc.size() <= 1;
  if (!flags.table.plan.empty() || (plain && request.cut.empty() && request.split.empty() && shares.empty())) {
    return OkStatus();
  }
  // By hosts that stand for those who will ask.
  std::vector<NodeRecord> anybody(static_cast<size_t>(NodesWantedBy(flags).total()));
  for (size_t i = 0; i < std::min(anybody.size(), shares.size()); ++i) anybody[i].set_host_name(shares[i].host);
  return CountedConfig(flags, anybody, flags.solver).status();
}

NodesWanted NodesWantedBy(const SeatPlanFlags& flags) {
  const StatusOr<TableRequest> request = RequestOfOptions(flags.table);
  CHECK(request.ok()) << request.status().message();
  NodesWanted wanted{.ps = request->ps, .exclude = SplitList(flags.table.exclude)};
  for (const int replicas : request->conv) wanted.conv += replicas;
  // Shards beside conv nodes are parts of these.
  for (const int shards : request->fc) {
    wanted.fc += request->beside ? std::max(0, shards - request->conv.at(0)) : shards;
  }
  if (!flags.table.plan.empty()) return {.any = wanted.total(), .exclude = wanted.exclude};
  return wanted;
}

TablePlanner MakeSeatPlanner(const SeatPlanFlags& flags) {
  return [flags](const std::vector<NodeRecord>& due) -> StatusOr<TableRecord> {
    std::error_code error;
    const std::string solver = std::filesystem::absolute(flags.solver, error).string();
    std::vector<std::string> names;
    if (flags.table.plan.empty()) {
      HP_ASSIGN_OR_RETURN(RoutingTableConfig config, CountedConfig(flags, due, solver));
      for (size_t i = 0; i < due.size(); ++i) names.push_back(AskerName(i));
      return Seat(false, std::move(config), due, names);
    }
    HP_ASSIGN_OR_RETURN(const auto profiles, ProfilesOf(flags));
    names = PlannedHostNames(due, profiles);
    HP_ASSIGN_OR_RETURN(RoutingTableConfig config, PlannedConfig(flags, due, names, profiles, solver));
    return Seat(true, std::move(config), due, names);
  };
}

}  // namespace hp
