#include "commands/plan_table.h"

#include "backend/backend.h"
#include "base/format.h"
#include "base/memory_room.h"
#include "base/words.h"
#include "commands/describe.h"
#include "commands/hosts_like_this.h"
#include "commands/profile_net.h"
#include "commands/sample_shape.h"
#include "commands/simulate.h"
#include "proto/solver_type.h"
#include "proto/text.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <tuple>

namespace hp {
namespace {

constexpr size_t kMostPools = 8;  // kinds of nodes whose pools are printed
// A simulation takes about as long as the square of its nodes.
constexpr size_t kMostSimulated = 16;  // nodes of a table
constexpr size_t kMostSquares = 6144;  // of all tables together: seconds
constexpr size_t kVaried = 4;          // whose number of micro-batches is varied

/// The files of a job, and the shapes of its samples.
struct PlanFiles {
  caffe::SolverParameter solver;
  std::shared_ptr<const caffe::NetParameter> net;
  SampleShapes samples;
};

StatusOr<PlanFiles> ReadFiles(const PlanFlags& flags) {
  PlanFiles files;
  HP_ASSIGN_OR_RETURN(files.solver, ReadSolver(flags.solver));
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, NetOfSolver(files.solver));
  files.net = std::make_shared<const caffe::NetParameter>(std::move(net));
  HP_RETURN_IF_ERROR(CheckBuildable(flags.solver, files.solver, files.net));
  HP_ASSIGN_OR_RETURN(files.samples, SampleShapesOf(flags.sample, files.solver, *files.net, flags.inputs));
  return files;
}

StatusOr<Hosts> HostsOfFlag(const std::string& flag, std::string* note) {
  std::error_code error;
  if (std::filesystem::is_regular_file(flag, error)) return ReadHosts(flag);
  if (flag.ends_with(".prototxt")) return NotFound("--hosts=%s: no such file", flag.c_str());
  return HostsLikeThis(SplitList(flag), note);
}

StatusOr<Workload> WorkOf(const PlanFlags& flags, const PlanFiles& files) {
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(files.net, caffe::TRAIN));
  Workload work;
  work.batch = graph->batch_size();
  work.iter_size = files.solver.iter_size();
  work.histories = HistoriesOf(files.solver);
  work.per_replica = flags.per_replica;
  if (work.batch < 1) return InvalidArgument("net \"%s\" has no batch_size to train with", files.net->name().c_str());
  return work;
}

StatusOr<RoutingTableConfig> ConfigOf(const PlanFlags& flags, const PlanFiles& files, const PlanProblem& problem,
                                      const TablePlan& plan) {
  TableRequest request = RequestOf(problem, plan);
  request.solver = flags.solver_in_table;
  request.port = flags.port;
  request.job = flags.job;
  request.tls = flags.tls;
  HP_ASSIGN_OR_RETURN(RoutingTableConfig config, MakeTable(request, *problem.net));
  if (const std::vector<std::string> faults = CheckSolverFit(config, files.solver); !faults.empty()) {
    return Status(StatusCode::kInvalidArgument, faults[0]);
  }
  // What is said of a host holds for all of its nodes on its processors, which share it.
  std::map<int, int> of_host;  // such nodes, by index of the host
  for (const int place : plan.places())
    of_host[problem.hosts.places[place].host] += problem.hosts.places[place].device == "cpu";
  const std::vector<int> places = plan.places();
  for (int rank = 0; rank < config.node_size(); ++rank) {
    const HostPlace& place = problem.hosts.places[places[rank]];
    const HostInfo& host = problem.hosts.hosts[place.host];
    if (host.says_link) config.mutable_node(rank)->set_link_gbit_per_s(host.link_bytes_per_second * 8 / 1e9);
    if (place.device != "cpu") continue;
    if (host.says_cores)
      config.mutable_node(rank)->set_threads(std::max(1, host.cores / (host.nodes > 1 ? of_host[place.host] : 1)));
    if (host.says_memory)
      config.mutable_node(rank)->set_memory_mb((host.memory_bytes >> 20) / (host.nodes > 1 ? of_host[place.host] : 1));
  }
  return config;
}

StatusOr<std::unique_ptr<JobPlan>> JobOf(const PlanFiles& files, const RoutingTable& table) {
  JobPlan::Options options;
  options.table = &table;
  options.solver = files.solver;
  options.net = files.net;
  options.samples = files.samples;
  return JobPlan::Create(options);
}

/// @return an iteration's seconds under the plan's table.
StatusOr<double> SimulatePlan(const PlanFlags& flags, const PlanFiles& files, const PlanProblem& problem,
                              const TablePlan& plan) {
  PlanFiles training = files;
  training.solver.clear_test_iter();
  HP_ASSIGN_OR_RETURN(const RoutingTableConfig config, ConfigOf(flags, training, problem, plan));
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Create(config, "plan"));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> job, JobOf(training, table));
  return SimulatedSeconds(*job, problem.hosts);
}

/// Of a plan: shards, say, whose layers share parameters that are divided in two ways.
bool NoTableHasIt(const Status& status) { return status.code() == StatusCode::kInvalidArgument; }

/// Adds the best plans with half and with twice their micro-batches.
Status TryMicroBatches(const PlanFlags& flags, const PlanFiles& files, const PlanProblem& problem,
                       std::vector<TablePlan>* plans) {
  for (size_t i = 0, best = std::min(kVaried, plans->size()); i < best; ++i) {
    const int micro_batches = (*plans)[i].micro_batches;
    for (const int other : {micro_batches / 2, micro_batches * 2}) {
      std::optional<TablePlan> plan = WithMicroBatches(problem, (*plans)[i], other);
      if (!plan || plan->one_node()) continue;
      const StatusOr<double> seconds = SimulatePlan(flags, files, problem, *plan);
      if (NoTableHasIt(seconds.status())) continue;
      HP_ASSIGN_OR_RETURN(plan->simulated_s, seconds);
      plans->push_back(*std::move(plan));
    }
  }
  SortPlans(plans);
  return OkStatus();
}

/// Simulates the plans, as many as take a moment, and puts the fastest first; those of many nodes are left as they are.
/// Formulas know little of what several iterations and micro-batches do at the same time.
Status RankBySimulation(const PlanFlags& flags, const PlanFiles& files, const PlanProblem& problem,
                        PlanChoice* choice) {
  std::vector<TablePlan> plans;
  for (const std::optional<TablePlan>& plan : {choice->one_node, choice->data_parallel}) {
    if (plan) plans.push_back(*plan);
  }
  const size_t named = plans.size();  // which every answer names
  for (const TablePlan& plan : choice->plans) {
    if (!plan.one_node() && !(plan.data_parallel() && choice->data_parallel)) plans.push_back(plan);
  }
  size_t squares = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const size_t own = plans[i].places().size();
    if (own > kMostSimulated) return OkStatus();
    squares += own * own;
    if (i > named && squares > kMostSquares) {
      plans.resize(i);
      break;
    }
    const StatusOr<double> seconds = SimulatePlan(flags, files, problem, plans[i]);
    if (i >= named && NoTableHasIt(seconds.status())) {
      plans.erase(plans.begin() + static_cast<std::ptrdiff_t>(i--));
      continue;
    }
    HP_ASSIGN_OR_RETURN(plans[i].simulated_s, seconds);
  }
  for (size_t i = 0; i < named; ++i) (plans[i].one_node() ? choice->one_node : choice->data_parallel) = plans[i];
  SortPlans(&plans);
  HP_RETURN_IF_ERROR(TryMicroBatches(flags, files, problem, &plans));
  choice->plans = std::move(plans);
  return OkStatus();
}

/// Makes the nets of one node of each kind; sets the pools of all nodes, those that fit, and what the plan says of
/// memory. @param pools gets what to print of the pools.
/// @return kInvalidArgument: a node does not fit into its host, or as CheckPrecisionHere.
Status FitNodes(const PlanFiles& files, const PlanProblem& problem, TablePlan* plan, RoutingTableConfig* config,
                std::string* pools) {
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Create(*config, "plan"));
  HP_ASSIGN_OR_RETURN(const std::shared_ptr<const JobPlan> job, JobOf(files, table));
  HP_RETURN_IF_ERROR(CheckPrecisionHere(*job));
  const std::unique_ptr<Backend> backend = MakeCpuBackend(ElementOf(problem.precision));
  // Nodes are alike if they have the same kinds of parts, the same share and the same room. Slices of shards differ by
  // one channel at most.
  const std::vector<int> places = plan->places();
  std::map<std::tuple<int, bool, int, int64_t>, NodeSummary> known;
  std::map<int, double> of_host;  // bytes of all nodes, by index of the host
  for (int rank = 0; rank < config->node_size(); ++rank) {
    const NodeInfo& node = table.node(rank);
    const HostPlace& place = problem.hosts.places[places[rank]];
    const auto [like, added] =
        known.try_emplace({node.parts[0].stage, node.parts.size() > 1, node.share, place.memory_bytes});
    if (added) {
      const MemoryRoom room{place.memory_bytes, "its host has", ""};
      HP_ASSIGN_OR_RETURN(like->second, SummarizeNode(job, rank, backend.get(), room));
      const std::string pool = Format("%d on %s", like->second.solvers, node.name.c_str());
      if (known.size() <= kMostPools && like->second.solvers > 0)
        *pools += (pools->empty() ? "pools, in solvers: " : ", ") + pool;
    }
    if (like->second.solvers > 0) config->mutable_node(rank)->set_pool_size(like->second.solvers);
    of_host[place.host] += static_cast<double>(like->second.host_bytes);
  }
  for (size_t g = 0; g < plan->groups.size(); ++g) {
    plan->prediction.loads[g].memory = of_host[problem.hosts.places[plan->groups[g].first].host];
  }
  return OkStatus();
}

/// Lines about profiles whose times are not those of the table's precision; counted times are always float32's.
std::string OtherPrecisions(const PlanProblem& problem) {
  const std::string wanted = RoutingTableConfig::Precision_Name(problem.precision);
  std::set<std::string> lines, all;
  for (const HostPlace& place : problem.hosts.places) {
    const std::string has = place.profile == nullptr ? "FP32" : place.profile->precision();
    all.insert(has);
    if (has == wanted) continue;
    const std::string which = place.profile == nullptr ? "times without a profile are" : place.profile->path() + " is";
    lines.insert(Format("note: %s of precision %s, and the table of %s, whose convolutions take other times\n",
                        which.c_str(), has.c_str(), wanted.c_str()));
  }
  // AUTO may become what all of them are.
  if (problem.precision == RoutingTableConfig::AUTO && all.size() == 1) return "";
  return Join({lines.begin(), lines.end()}, "");
}

}  // namespace

StatusOr<ProfileConfig> ProfileSolver(const PlanFlags& flags) {
  HP_ASSIGN_OR_RETURN(const PlanFiles files, ReadFiles(flags));
  ProfileOptions options;
  options.sample = files.samples.front();
  options.host = flags.hosts;
  options.precision = flags.precision;
  return ProfileNet(files.net, options);
}

StatusOr<PlannedTable> PlanTable(const PlanFlags& flags) {
  PlannedTable planned;
  HP_ASSIGN_OR_RETURN(const PlanFiles files, ReadFiles(flags));
  PlanProblem problem;
  problem.net = files.net;
  problem.sample = files.samples.front();
  problem.precision = flags.precision;
  problem.wire_precision = flags.wire_precision;
  HP_ASSIGN_OR_RETURN(problem.work, WorkOf(flags, files));
  HP_ASSIGN_OR_RETURN(problem.hosts, flags.described ? HostsOf(*flags.described, "the nodes that ask")
                                                     : HostsOfFlag(flags.hosts, &planned.reasons));
  HP_RETURN_IF_ERROR(ExcludeHosts(flags.exclude, &problem.hosts));
  HP_RETURN_IF_ERROR(LoadProfiles(flags.profile, *problem.net, problem.sample, &problem.hosts));
  planned.reasons += OtherPrecisions(problem);
  HP_ASSIGN_OR_RETURN(PlanChoice choice, ChoosePlan(problem));
  HP_RETURN_IF_ERROR(RankBySimulation(flags, files, problem, &choice));
  if (flags.take > std::ssize(choice.plans)) {
    return InvalidArgument("--take is %d, and there are %zu tables that are worth a look", flags.take,
                           choice.plans.size());
  }
  choice.plans.erase(choice.plans.begin(), choice.plans.begin() + flags.take - 1);
  Status last;
  while (!choice.plans.empty()) {
    StatusOr<RoutingTableConfig> config = ConfigOf(flags, files, problem, choice.plans[0]);
    last = config.status();
    std::string pools;
    if (config.ok()) last = FitNodes(files, problem, &choice.plans[0], &*config, &pools);
    if (last.ok()) {
      planned.config = *std::move(config);
      planned.reasons += DescribeChoice(problem, choice) + pools + " and the nodes like them\n";
      return planned;
    }
    planned.reasons += "passed over: " + last.message() + "\n";
    choice.plans.erase(choice.plans.begin());
  }
  return last;
}

}  // namespace hp
