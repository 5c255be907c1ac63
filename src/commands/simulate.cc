#include "commands/simulate.h"

#include "base/format.h"
#include "base/pending_file.h"
#include "commands/hosts_like_this.h"
#include "commands/sample_shape.h"
#include "proto/place.h"
#include "proto/text.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_places.h"
#include "scheduler/simulator/planned_job.h"
#include "scheduler/simulator/simulation.h"
#include "scheduler/simulator/simulation_report.h"
#include "scheduler/simulator/simulation_trace.h"
#include "solvers/check.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace hp {
namespace {

// Two clocks fill the pipelines; behind them iterations are alike.
constexpr int64_t kClocks = 10, kFewClocks = 5, kWarmUp = 2;

StatusOr<std::unique_ptr<JobPlan>> PlanJob(const SimulateFlags& flags, const RoutingTable& table) {
  JobPlan::Options options;
  options.table = &table;
  HP_ASSIGN_OR_RETURN(options.solver, ReadSolver(table.solver_path()));
  HP_RETURN_IF_ERROR(AtFields(CheckSolver(options.solver), table.solver_path()));
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, NetOfSolver(options.solver));
  options.net = std::make_shared<const caffe::NetParameter>(std::move(net));
  const std::vector<std::string> faults = CheckTable(table.config(), *options.net, nullptr);
  if (!faults.empty()) return InvalidArgument("%s: %s", flags.table.c_str(), faults[0].c_str());
  HP_RETURN_IF_ERROR(NetGraph::Create(options.net, caffe::TRAIN).status());
  options.solver.clear_test_iter();  // training alone
  HP_ASSIGN_OR_RETURN(options.samples, SampleShapesOf(flags.sample, options.solver, *options.net, flags.inputs));
  return JobPlan::Create(options);
}

/// The table's hosts and devices. Tasks' own GPUs are numbered as PlacesOfNodes does.
std::vector<std::string> PlacesOf(const RoutingTable& table) {
  std::vector<std::string> entries;
  std::map<std::string, int> given;  // GPUs by host
  for (const NodeInfo& node : table.nodes()) {
    const bool own = node.device == kOwnGpu;
    entries.push_back(node.host + "/" + node.device + (own ? ":" + std::to_string(given[node.host]++) : ""));
  }
  return entries;
}

}  // namespace

StatusOr<double> SimulatedSeconds(const JobPlan& plan, const Hosts& hosts) {
  HP_ASSIGN_OR_RETURN(const std::vector<int> places, PlacesOfNodes(plan.table(), hosts));
  const PlannedTimes times(plan, hosts, places);
  HP_ASSIGN_OR_RETURN(const SimulationResult result,
                      Simulate(SimulatedJobOf(plan, hosts, places, kFewClocks), times, {.warm_up = kWarmUp}));
  return result.ms_per_iteration() / 1e3;
}

StatusOr<std::string> SimulateTable(const SimulateFlags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Load(flags.table));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> plan, PlanJob(flags, table));
  std::string text;
  HP_ASSIGN_OR_RETURN(Hosts hosts,
                      flags.hosts.empty() ? HostsLikeThis(PlacesOf(table), &text) : ReadHosts(flags.hosts));
  HP_RETURN_IF_ERROR(
      LoadProfiles(flags.profile, plan->graph(caffe::TRAIN).net(), plan->node(0, caffe::TRAIN).sample(), &hosts));
  HP_ASSIGN_OR_RETURN(const std::vector<int> places, PlacesOfNodes(table, hosts));
  const SimulatedJob job = SimulatedJobOf(*plan, hosts, places, kClocks);
  const PlannedTimes times(*plan, hosts, places);
  SimulationTrace trace;
  HP_ASSIGN_OR_RETURN(const SimulationResult result,
                      Simulate(job, times, {.warm_up = kWarmUp, .trace = flags.trace.empty() ? nullptr : &trace}));
  text += DescribeSimulation(job, result);
  if (!flags.trace.empty()) {
    std::vector<std::string> names;
    for (const SimulatedJob::Node& node : job.nodes) names.push_back(node.name);
    HP_RETURN_IF_ERROR(WriteWholeFile(flags.trace, trace.Json(names)));
    text += flags.trace + ": a trace; open it at ui.perfetto.dev\n";
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return text +
         Format("simulated %lld iterations of %d node(s), %lld of them counted: %lld tensors, %lld events, in %.1f s\n",
                static_cast<long long>(kClocks), table.size(), static_cast<long long>(result.clocks),
                static_cast<long long>(result.messages), static_cast<long long>(result.events), took.count());
}

}  // namespace hp
