#include "commands/plan_seats.h"

#include "base/format.h"
#include "commands/plan_table.h"
#include "proto/text.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_maker.h"

#include <glog/logging.h>

#include <algorithm>
#include <filesystem>

namespace hp {
namespace {

constexpr int kMostSeats = 1024;

// Places are named by who asked, since several may be on one host.
std::string AskerName(size_t index) { return "asker-" + std::to_string(index); }

/// Processes that share the host of `record`, itself among them.
int BesideOnHost(const NodeRecord& record, const std::vector<NodeRecord>& due) {
  return static_cast<int>(std::count_if(due.begin(), due.end(), [&record](const NodeRecord& other) {
    return other.host_name() == record.host_name() && other.address(0) == record.address(0);
  }));
}

HostsConfig DescribedHosts(const std::vector<NodeRecord>& due) {
  HostsConfig hosts;
  for (size_t i = 0; i < due.size(); ++i) {
    const int beside = BesideOnHost(due[i], due);
    HostConfig* host = hosts.add_host();
    host->set_name(AskerName(i));
    if (due[i].device() != "cpu") host->add_device(due[i].device());
    host->set_cores(std::max(1, due[i].cores() / beside));
    host->set_memory_mb(std::max<int64_t>(1, due[i].memory_mb() / beside));
  }
  return hosts;
}

StatusOr<RoutingTableConfig> PlannedConfig(const SeatPlanFlags& flags, const std::vector<NodeRecord>& due,
                                           const std::string& solver_in_table) {
  PlanFlags plan;
  plan.solver = flags.solver;
  plan.solver_in_table = solver_in_table;
  plan.described = DescribedHosts(due);
  plan.sample = flags.sample;
  plan.cache_dir = flags.cache_dir;
  HP_ASSIGN_OR_RETURN(PlannedTable planned, PlanTable(plan));
  LOG(INFO) << "planned:\n" << planned.reasons;
  return std::move(planned.config);
}

StatusOr<RoutingTableConfig> CountedConfig(const SeatPlanFlags& flags, const std::vector<NodeRecord>& due,
                                           const std::string& solver_in_table) {
  TableRequest request;
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

/// Gives each node of the config the process whose place it has.
StatusOr<TableRecord> Seat(RoutingTableConfig config, const std::vector<NodeRecord>& due) {
  TableRecord table;
  std::vector<bool> seated(due.size());
  for (NodeConfig& node : *config.mutable_node()) {
    size_t index = 0;
    while (index < due.size() && (seated[index] || node.host() != AskerName(index))) ++index;
    if (index == due.size()) return InternalError("node %s has the place of nobody", node.name().c_str());
    seated[index] = true;
    node.set_host(due[index].address(0));
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
  if (flags.solver.empty()) return InvalidArgument("--solver=FILE is missing: a table is planned for a solver");
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter solver, ReadSolver(flags.solver));
  return NetOfSolver(solver).status();
}

NodesWanted NodesWantedBy(const SeatPlanFlags& flags) {
  if (!flags.plan.empty()) return {.any = flags.conv + flags.fc};
  return {.conv = flags.conv, .fc = flags.fc, .ps = flags.ps};
}

TablePlanner MakeSeatPlanner(const SeatPlanFlags& flags) {
  return [flags](const std::vector<NodeRecord>& due) -> StatusOr<TableRecord> {
    std::error_code error;
    const std::string solver = std::filesystem::absolute(flags.solver, error).string();
    HP_ASSIGN_OR_RETURN(RoutingTableConfig config,
                        flags.plan.empty() ? CountedConfig(flags, due, solver) : PlannedConfig(flags, due, solver));
    return Seat(std::move(config), due);
  };
}

}  // namespace hp
