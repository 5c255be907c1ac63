#include "commands/make_table.h"

#include "base/format.h"
#include "base/host.h"
#include "commands/describe.h"
#include "commands/file_warnings.h"
#include "commands/job_hosts.h"
#include "commands/sample_shape.h"
#include "proto/text.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace hp {
namespace {

namespace fs = std::filesystem;

/// MakeTable; where the hosts are those of a scheduler's tasks, with as many as the table has nodes.
StatusOr<RoutingTableConfig> MakeTableForJob(const std::string& hosts, bool port_given, TableRequest* request,
                                             const caffe::NetParameter& net) {
  if (!AreJobHosts(hosts)) return MakeTable(*request, net);
  if (!port_given) {
    HP_ASSIGN_OR_RETURN(request->port, JobPort(hosts, request->port));
  }
  request->hosts = {"localhost"};
  HP_ASSIGN_OR_RETURN(const RoutingTableConfig anywhere, MakeTable(*request, net));
  HP_ASSIGN_OR_RETURN(request->hosts, JobHosts(hosts, anywhere.node_size()));
  return MakeTable(*request, net);
}

void AddFileWarnings(const JobPlan* job, MadeTable* made) {
  for (std::string& warning : FileWarnings(made->solver, made->solver_path, job)) {
    made->warnings.push_back(std::move(warning));
  }
}

}  // namespace

std::string SolverFromTable(const std::string& solver, const std::string& table) {
  if (fs::path(solver).is_absolute()) return solver;
  if (table.find("://") != std::string::npos) return fs::absolute(solver).string();
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(table).parent_path(), error);
  const fs::path target = fs::weakly_canonical(fs::absolute(solver), error);
  const fs::path relative = target.lexically_relative(folder);
  // A path through the root says more about this host than where the solver lies.
  const auto climbs = std::count(relative.begin(), relative.end(), "..");
  const fs::path below_root = folder.relative_path();
  const auto depth = std::distance(below_root.begin(), below_root.end());
  return (climbs < depth ? relative : target).string();
}

StatusOr<MadeTable> MakeTableOf(const std::string& solver_path, const std::string& hosts, bool port_given,
                                TableRequest* request) {
  MadeTable made;
  made.solver_path = solver_path;
  HP_ASSIGN_OR_RETURN(made.solver, ReadSolver(solver_path));
  const caffe::SolverParameter& solver = made.solver;
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, NetOfSolver(solver));
  made.net = std::make_shared<const caffe::NetParameter>(std::move(net));
  HP_RETURN_IF_ERROR(CheckBuildable(solver_path, solver, made.net));
  HP_ASSIGN_OR_RETURN(made.config, MakeTableForJob(hosts, port_given, request, *made.net));
  if (const std::vector<std::string> faults = CheckSolverFit(made.config, solver); !faults.empty()) {
    return Status(StatusCode::kInvalidArgument, faults[0]);
  }
  for (const std::string& fault : CheckHosts(made.config, &CanonicalAddresses)) {
    made.warnings.push_back(fault + " (as this host sees it)");
  }
  const bool on_gpus = std::any_of(made.config.node().begin(), made.config.node().end(),
                                   [](const NodeConfig& node) { return node.device() != "cpu"; });
  if ((request->precision == RoutingTableConfig::TF32 || request->precision == RoutingTableConfig::FP16) && !on_gpus) {
    made.warnings.push_back(Format("--precision=%s is for GPUs, of which the table has none: CPUs compute in float32",
                                   RoutingTableConfig::Precision_Name(request->precision).c_str()));
  }
  if (request->wire_precision != RoutingTableConfig::FP32 && made.config.node_size() == 1) {
    made.warnings.push_back("--wire_precision changes nothing: the table has one node, and nothing crosses");
  }
  return made;
}

Status CheckMadeTable(const std::string& sample, const InputOptions& inputs, MadeTable* made) {
  StatusOr<SampleShapes> samples = SampleShapesOf(sample, made->solver, *made->net, inputs);
  if (samples.status().code() == StatusCode::kNotFound) {
    made->warnings.push_back("whether layers fit is not checked: " + samples.status().message());
    AddFileWarnings(nullptr, made);
    return OkStatus();
  }
  HP_RETURN_IF_ERROR(samples.status());
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Create(made->config, "the table"));
  HP_ASSIGN_OR_RETURN(const std::shared_ptr<const JobPlan> job,
                      PlanJob(table, made->solver, made->net, *std::move(samples)));
  AddFileWarnings(job.get(), made);
  return CheckPrecisionHere(*job);
}

}  // namespace hp
