#include "commands/check_table.h"

#include "base/format.h"
#include "base/host.h"
#include "base/memory_room.h"
#include "commands/describe.h"
#include "commands/file_warnings.h"
#include "layers/traits/net_warnings.h"
#include "proto/text.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_maker.h"
#include "scheduler/plan/table_places.h"
#include "solvers/check.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hp {
namespace {

/// A table and the files it leads to, as far as they could be read.
struct Job {
  RoutingTableConfig config;
  std::optional<caffe::SolverParameter> solver;
  std::optional<caffe::NetParameter> net;
};

/// Reads what the table of `path` leads to. @return every fault of table and files.
std::vector<std::string> ReadJob(const std::string& path, Job* job) {
  std::vector<std::string> faults;
  const auto add = [&faults](const std::vector<std::string>& more) {
    faults.insert(faults.end(), more.begin(), more.end());
  };
  if (!job->config.solver().empty()) {
    StatusOr<caffe::SolverParameter> solver = ReadSolver(PathBeside(path, job->config.solver()));
    if (!solver.ok()) {
      add({solver.status().message()});
    } else {
      job->solver = *std::move(solver);
      add(CheckSolverFit(job->config, *job->solver));
      StatusOr<caffe::NetParameter> net = NetOfSolver(*job->solver);
      if (net.ok()) job->net = *std::move(net);
      if (!job->net) add({net.status().message()});
    }
  }
  if (job->net) {
    add(CheckTable(job->config, *job->net, &CanonicalAddresses));
  } else {
    add(CheckStructure(job->config));
    add(CheckHosts(job->config, &CanonicalAddresses));
  }
  return faults;
}

/// What hpnode will warn of, or refuse on another host than this. @param plan null: none could be made.
std::string Warnings(const Job& job, const std::string& solver_path, const JobPlan* plan) {
  std::string text;
  for (const std::string& line : SolverWarnings(*job.solver)) text += "warning: solver: " + line + "\n";
  for (const std::string& line : NetWarnings(*job.net, LayerTypes::BuiltIn())) text += "warning: " + line + "\n";
  for (const std::string& line : FileWarnings(*job.solver, solver_path, plan)) text += "warning: " + line + "\n";
  return text;
}

/// What each node holds and sends, and whether it has the memory for it.
StatusOr<std::string> DescribeJob(const CheckFlags& flags, const std::shared_ptr<const JobPlan>& plan) {
  const auto room = [&flags](const NodeInfo& node) {
    if (flags.memory_mb > 0) return MemoryRoom{flags.memory_mb << 20, "--memory_mb allows", ""};
    return node.device == "cpu" && IsThisHost(node.host) ? HostMemoryTotal() : AddressSpaceRoom();
  };
  HP_ASSIGN_OR_RETURN(const std::vector<NodeSummary> nodes, Summarize(plan, room, &CanonicalAddresses));
  return DescribeNodes(plan->table(), nodes);
}

}  // namespace

StatusOr<CheckedTable> CheckTableFile(const CheckFlags& flags) {
  if (flags.memory_mb < 0 || flags.memory_mb > kMaxMemoryMb) {
    return InvalidArgument("--memory_mb is %lld; expected 0 to %lld", static_cast<long long>(flags.memory_mb),
                           static_cast<long long>(kMaxMemoryMb));
  }
  Job job;
  HP_RETURN_IF_ERROR(ReadTextProto(flags.table, &job.config));
  const std::vector<std::string> faults = ReadJob(flags.table, &job);
  CheckedTable checked;
  for (const std::string& fault : faults) checked.text += flags.table + ": " + fault + "\n";
  if (!faults.empty()) {
    checked.status = InvalidArgument("%s has %zu fault(s)", flags.table.c_str(), faults.size());
    return checked;
  }
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Create(job.config, flags.table));
  const StatusOr<std::shared_ptr<const JobPlan>> plan =
      PlanTableJob(table, *job.solver, *job.net, flags.sample, flags.inputs);
  const StatusOr<std::string> nodes = plan.ok() ? DescribeJob(flags, *plan) : plan.status();
  checked.status = nodes.status();
  if (nodes.ok()) checked.text = flags.table + ": valid\n";
  if (plan.status().code() == StatusCode::kNotFound) {
    checked.status =
        plan.status().Prepend(flags.table + ": the table has no fault, but whether layers fit is not known");
  }
  checked.text += Warnings(job, table.solver_path(), plan.ok() ? plan->get() : nullptr);
  checked.text += DescribeTable(job.config, *job.net);
  if (nodes.ok()) checked.text += *nodes;
  return checked;
}

}  // namespace hp
