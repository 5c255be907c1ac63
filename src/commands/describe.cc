#include "commands/describe.h"

#include "backend/backend.h"
#include "base/format.h"
#include "base/host.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_names.h"
#include "commands/sample_shape.h"
#include "engine/memory_fit.h"
#include "engine/stage_exchange.h"
#include "model/node_model.h"
#include "node/make_exchange.h"
#include "proto/net_filter.h"
#include "proto/place.h"
#include "scheduler/plan/job_precision.h"
#include "scheduler/plan/test_params.h"
#include "solvers/check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

namespace hp {
namespace {

void AddLayers(const NodeModel& model, NodeSummary* summary) {
  const auto& layers = model.job().graph(caffe::TRAIN).layers();
  for (const LayerPlan& plan : model.part(caffe::TRAIN).layers()) {
    if (!layers[plan.layer].source) summary->layers.push_back(layers[plan.layer].name());
  }
}

/// a * b + c, or the largest number if it is beyond that.
int64_t MultiplyAdd(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(std::min<__int128>(__int128{a} * b + c, std::numeric_limits<int64_t>::max()));
}

void AddTraffic(const NodeModel& model, NodeSummary* summary) {
  std::map<int, int64_t> rows;  // of an update, by variant
  for (MsgId id : model.schedule().TrainIds(0, model.plan().share)) {
    rows[model.plan().VariantOf(id)] += model.schedule().SamplesOfId(id).rows;
  }
  for (const auto& [variant, of_variant] : rows) {
    for (const PortPlan& port : model.job().node(model.rank(), caffe::TRAIN, variant).ports()) {
      int64_t& bytes = port.landing ? summary->received_bytes : summary->sent_bytes;
      bytes = MultiplyAdd(port.row_bytes, of_variant, bytes);
    }
  }
}

/// With parameter servers a replica sends all gradients and receives all values once, and a server those of all
/// replicas.
void AddExchange(const NodeModel& model, NodeSummary* summary) {
  const std::vector<StoredParam> params = model.stored_params();
  for (const StagePart& part : model.node().parts) {
    const ExchangedGroups groups = ExchangedGroupsOf(model, part.stage);
    const StageInfo& stage = model.table().stage(part.stage);
    if (stage.served < 0) {
      if (groups.empty()) continue;
      const DirectPlan::Traffic traffic = SummedBytes(model, part);
      summary->sent_bytes += traffic.sent;
      summary->received_bytes += traffic.received;
      continue;
    }
    int64_t bytes = 0;
    for (int param : ExchangedParamsOf(model, groups))
      bytes += params[param].gradient_count() * static_cast<int64_t>(sizeof(float));
    const int64_t moved = stage.server ? bytes * model.table().stage(stage.served).size() : bytes;
    summary->sent_bytes = MultiplyAdd(moved, 1, summary->sent_bytes);
    summary->received_bytes = MultiplyAdd(moved, 1, summary->received_bytes);
  }
}

NodeSummary SummaryOf(const NodeModel& model, const NodeMemory& memory) {
  NodeSummary summary;
  AddLayers(model, &summary);
  for (const StoredParam& param : model.stored_params()) {
    summary.parameters += param.block.count();
  }
  summary.parameter_bytes = static_cast<int64_t>(memory.parameters);
  summary.solvers = memory.pool_size;
  if (model.table().staleness() > 0) summary.pool_for_lead = model.job().PoolForLead(model.rank());
  summary.solver_bytes = static_cast<int64_t>(memory.solver);
  summary.memory_bytes = static_cast<int64_t>(memory.bytes());
  summary.host_bytes = static_cast<int64_t>(memory.host_bytes(model.node().device == "cpu"));
  AddTraffic(model, &summary);
  AddExchange(model, &summary);
  return summary;
}

std::string Bytes(int64_t bytes) {
  if (bytes < 1'000'000) return Format("%lld bytes", static_cast<long long>(bytes));
  return Format("%.1f MB", bytes / 1e6);
}

}  // namespace

StatusOr<NodeSummary> SummarizeNode(const std::shared_ptr<const JobPlan>& job, Rank rank, Backend* backend,
                                    const MemoryRoom& room) {
  NodeModel::Options options;
  options.backend = backend;
  options.rank = rank;
  HP_RETURN_IF_ERROR(CheckPlannedMemory(*job, rank, room));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NodeModel> model, NodeModel::Create(job, options));
  HP_ASSIGN_OR_RETURN(const NodeMemory memory, FitMemory(*model, ExchangeHostBytes(*model), room));
  return SummaryOf(*model, memory);
}

Status CheckBuildable(const std::string& solver_path, const caffe::SolverParameter& solver,
                      const std::shared_ptr<const caffe::NetParameter>& net) {
  HP_RETURN_IF_ERROR(AtFields(CheckSolver(solver), solver_path));
  const LayerTypes& types = LayerTypes::BuiltIn();
  HP_RETURN_IF_ERROR(CheckPhases(net, solver.test_iter_size(), types));
  for (const Phase phase : PhasesWith(solver.test_iter_size())) {
    HP_RETURN_IF_ERROR(Input::CheckReads(*net, phase, types));
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<const JobPlan>> PlanJob(const RoutingTable& table, const caffe::SolverParameter& solver,
                                                 const std::shared_ptr<const caffe::NetParameter>& net,
                                                 SampleShapes samples) {
  JobPlan::Options options;
  options.table = &table;
  options.solver = solver;
  options.net = net;
  options.samples = std::move(samples);
  HP_ASSIGN_OR_RETURN(std::unique_ptr<JobPlan> planned, JobPlan::Create(options));
  return std::shared_ptr<const JobPlan>(std::move(planned));
}

Status CheckPrecisionHere(const JobPlan& job) {
  const std::string lacks = CpuLacksBFloat16();
  for (const NodeInfo& node : job.table().nodes()) {
    if (node.device != "cpu" || !IsThisHost(node.host)) continue;
    HP_RETURN_IF_ERROR(CheckPrecision(job, node.rank, job.table().config().precision(), lacks));
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<const JobPlan>> PlanTableJob(const RoutingTable& table, const caffe::SolverParameter& solver,
                                                      const caffe::NetParameter& net, const std::string& sample,
                                                      const InputOptions& inputs) {
  const auto shared = std::make_shared<const caffe::NetParameter>(net);
  // What is wrong with the net shows without its databases, which may be on other hosts.
  HP_RETURN_IF_ERROR(CheckBuildable(table.solver_path(), solver, shared));
  HP_ASSIGN_OR_RETURN(SampleShapes samples, SampleShapesOf(sample, solver, net, inputs));
  HP_ASSIGN_OR_RETURN(std::shared_ptr<const JobPlan> job, PlanJob(table, solver, shared, std::move(samples)));
  HP_RETURN_IF_ERROR(CheckPrecisionHere(*job));
  return job;
}

StatusOr<std::vector<NodeSummary>> Summarize(const std::shared_ptr<const JobPlan>& job,
                                             const std::function<MemoryRoom(const NodeInfo&)>& room,
                                             const HostResolver& resolve) {
  const RoutingTable& table = job->table();
  const caffe::NetParameter train = FilterNet(job->graph(caffe::TRAIN).net(), caffe::TRAIN);
  HP_RETURN_IF_ERROR(CheckSnapshotSize(job->solver(), job->parameter_bytes()));
  HP_RETURN_IF_ERROR(
      AtLayer(CheckSnapshotNames(job->solver(), job->parameter_bytes(), train, LayersWith(job->params())),
              job->graph(caffe::TRAIN).net(), caffe::TRAIN));
  const std::unique_ptr<Backend> backend = MakeCpuBackend(ElementOf(table.config().precision()));
  std::vector<NodeSummary> nodes;
  for (const NodeInfo& node : table.nodes()) {
    HP_ASSIGN_OR_RETURN(NodeSummary summary, SummarizeNode(job, node.rank, backend.get(), room(node)));
    nodes.push_back(std::move(summary));
  }
  for (const std::vector<Rank>& ranks : NodesByHost(table.config(), resolve)) {
    std::vector<HostShare> shares;
    MemoryRoom least = AddressSpaceRoom();
    for (const Rank rank : ranks) {
      shares.push_back({rank, static_cast<size_t>(nodes[rank].host_bytes)});
      if (MemoryRoom host = room(table.node(rank)); host.bytes < least.bytes) least = std::move(host);
    }
    HP_RETURN_IF_ERROR(CheckHostMemory(table, shares, least));
  }
  return nodes;
}

std::string DescribeNodes(const RoutingTable& table, const std::vector<NodeSummary>& nodes) {
  std::string text;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    const NodeSummary& node = nodes[rank];
    text += Format("node \"%s\": %zu layer(s), %lld parameters (%s with histories and gradients)\n",
                   table.node(static_cast<Rank>(rank)).name.c_str(), node.layers.size(),
                   static_cast<long long>(node.parameters), Bytes(node.parameter_bytes).c_str());
    std::string line = " ";
    for (const std::string& layer : node.layers) line += " " + layer;
    text += line + "\n";
    const std::string& device = table.node(static_cast<Rank>(rank)).device;
    text += Format(
        "  memory %s, including a pool of %d solver(s) of %s each%s\n", Bytes(node.memory_bytes).c_str(), node.solvers,
        Bytes(node.solver_bytes).c_str(),
        device == "cpu" ? "" : (", as on a CPU; " + device + " needs more and logs how much at startup").c_str());
    if (node.pool_for_lead > 1) {
      text += Format("  staleness %d: a pool of %lld solver(s) or more lets it get so many iterations ahead%s\n",
                     table.staleness(), static_cast<long long>(node.pool_for_lead),
                     node.solvers < node.pool_for_lead ? ", which this one does not" : "");
    }
    text += Format("  sends %s and receives %s in each iteration\n", Bytes(node.sent_bytes).c_str(),
                   Bytes(node.received_bytes).c_str());
  }
  return text;
}

}  // namespace hp
