#include "commands/plan_seats.h"

#include "base/format.h"
#include "commands/choose_addresses.h"
#include "commands/plan_table.h"
#include "proto/text.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_maker.h"

#include <glog/logging.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace hp {
namespace {

constexpr int kMostSeats = 1024;

// Places are named by who asked, since several may be on one host.
std::string AskerName(size_t index) { return "asker-" + std::to_string(index); }

bool OnOneHost(const NodeRecord& a, const NodeRecord& b) {
  if (a.host_id() != 0 && b.host_id() != 0) return a.host_id() == b.host_id();
  return a.host_name() == b.host_name() && a.address(0) == b.address(0);
}

/// The first process on the host of each process, which names the host in a plan.
std::vector<size_t> FirstOfHost(const std::vector<NodeRecord>& due) {
  std::vector<size_t> firsts;
  for (const NodeRecord& record : due) {
    const auto first =
        std::find_if(due.begin(), due.end(), [&](const NodeRecord& one) { return OnOneHost(one, record); });
    firsts.push_back(static_cast<size_t>(first - due.begin()));
  }
  return firsts;
}

/// Each host once, with what its processes share: its processors, memory and link. Of processes that say different
/// numbers, whose containers may have limits of their own, the largest counts.
HostsConfig DescribedHosts(const std::vector<NodeRecord>& due) {
  const std::vector<size_t> firsts = FirstOfHost(due);
  HostsConfig hosts;
  for (size_t first = 0; first < due.size(); ++first) {
    if (firsts[first] != first) continue;
    HostConfig* const host = hosts.add_host();
    host->set_name(AskerName(first));
    std::set<std::string> gpus;
    int nodes = 0, cores = 1;
    int64_t memory_mb = 1;
    for (size_t i = first; i < due.size(); ++i) {
      if (firsts[i] != first) continue;
      cores = std::max(cores, due[i].cores());
      memory_mb = std::max<int64_t>(memory_mb, due[i].memory_mb());
      if (due[i].device() == "cpu") {
        ++nodes;
      } else {
        gpus.insert(due[i].device());
      }
    }
    host->set_cores(cores);
    host->set_memory_mb(memory_mb);
    for (const std::string& gpu : gpus) host->add_device(gpu);
    if (gpus.empty()) host->set_nodes(nodes);
    if (!gpus.empty() && nodes > 0) host->add_device("cpu");  // its processors are one more place
  }
  return hosts;
}

StatusOr<RoutingTableConfig> PlannedConfig(const SeatPlanFlags& flags, const std::vector<NodeRecord>& due,
                                           const std::string& solver_in_table) {
  PlanFlags plan;
  plan.solver = flags.solver;
  plan.solver_in_table = solver_in_table;
  plan.described = DescribedHosts(due);
  plan.tls = flags.table.tls;
  plan.per_replica = flags.table.per_replica;
  plan.job = flags.table.job;
  plan.sample = flags.sample;
  plan.cache_dir = flags.cache_dir;
  HP_ASSIGN_OR_RETURN(PlannedTable planned, PlanTable(plan));
  LOG(INFO) << "planned:\n" << planned.reasons;
  return std::move(planned.config);
}

StatusOr<RoutingTableConfig> CountedConfig(const SeatPlanFlags& flags, const std::vector<NodeRecord>& due,
                                           const std::string& solver_in_table) {
  TableRequest request = flags.table;
  request.solver = solver_in_table;
  request.conv = {flags.conv};
  if (flags.fc > 0) request.fc = {flags.fc};
  request.ps = flags.ps;
  for (size_t i = 0; i < due.size(); ++i) request.hosts.push_back(AskerName(i) + "/" + due[i].device());
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter solver, ReadSolver(flags.solver));
  HP_ASSIGN_OR_RETURN(const caffe::NetParameter net, NetOfSolver(solver));
  HP_ASSIGN_OR_RETURN(RoutingTableConfig config, MakeTable(request, net));
  const std::vector<std::string> faults = CheckSolverFit(config, solver);
  if (!faults.empty()) return Status(StatusCode::kInvalidArgument, faults[0]);
  return config;
}

/// Gives each node of the config a process whose place it has.
/// @param planned its hosts are those of DescribedHosts; else each process is a host.
StatusOr<TableRecord> Seat(bool planned, RoutingTableConfig config, const std::vector<NodeRecord>& due) {
  std::vector<std::string> name_of;  // of its host in the config, by process
  const std::vector<size_t> firsts = FirstOfHost(due);
  for (size_t i = 0; i < due.size(); ++i) name_of.push_back(AskerName(planned ? firsts[i] : i));
  HP_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ChooseAddresses(due));
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
    node.set_host(addresses[index]);
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

}  // namespace

std::string SeatPlanFlags::request() const {
  std::string text = "--solver=" + std::filesystem::path(solver).filename().string();
  if (!plan.empty()) text += " --plan=" + plan;
  text += Format(" --conv=%d --fc=%d", conv, fc);
  return ps > 0 ? text + Format(" --ps=%d", ps) : text;
}

Status CheckSeatPlan(const SeatPlanFlags& flags) {
  if (!flags.plan.empty() && flags.plan != "auto") {
    return InvalidArgument("--plan is \"%s\"; expected auto", flags.plan.c_str());
  }
  if (flags.conv < 1) return InvalidArgument("--conv is %d; expected at least 1", flags.conv);
  for (const int nodes : {flags.conv, flags.fc, flags.ps}) {
    if (nodes < 0 || nodes > kMostSeats) {
      return InvalidArgument("a number of nodes is %d; expected 0 to %d", nodes, kMostSeats);
    }
  }
  if (!flags.plan.empty() && flags.ps > 0) return InvalidArgument("--ps does not go with --plan=auto");
  const TableRequest& table = flags.table;
  const char* chosen = table.micro_batches != 0 ? "micro_batches"
                       : !table.cut.empty()     ? "cut"
                       : !table.split.empty()   ? "split"
                       : table.beside           ? "beside"
                       : table.side_classifiers ? "side_classifiers"
                       : table.scattered        ? "scattered"
                       : table.staleness != 0   ? "staleness"
                                                : nullptr;
  if (!flags.plan.empty() && chosen != nullptr) {
    return InvalidArgument("--%s does not go with --plan=auto, which chooses the table", chosen);
  }
  if (flags.solver.empty()) return InvalidArgument("--solver=FILE is missing: a table is planned for a solver");
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter solver, ReadSolver(flags.solver));
  if (table.split.empty() && table.cut.empty()) return NetOfSolver(solver).status();
  // By hosts that stand for those who will ask.
  const std::vector<NodeRecord> anybody(static_cast<size_t>(NodesWantedBy(flags).total()));
  return CountedConfig(flags, anybody, flags.solver).status();
}

NodesWanted NodesWantedBy(const SeatPlanFlags& flags) {
  if (!flags.plan.empty()) return {.any = flags.conv + flags.fc};
  // Shards beside conv nodes are parts of these.
  const int fc = flags.table.beside ? std::max(0, flags.fc - flags.conv) : flags.fc;
  return {.conv = flags.conv, .fc = fc, .ps = flags.ps};
}

TablePlanner MakeSeatPlanner(const SeatPlanFlags& flags) {
  return [flags](const std::vector<NodeRecord>& due) -> StatusOr<TableRecord> {
    std::error_code error;
    const std::string solver = std::filesystem::absolute(flags.solver, error).string();
    HP_ASSIGN_OR_RETURN(RoutingTableConfig config,
                        flags.plan.empty() ? CountedConfig(flags, due, solver) : PlannedConfig(flags, due, solver));
    return Seat(!flags.plan.empty(), std::move(config), due);
  };
}

}  // namespace hp
