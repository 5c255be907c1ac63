// The pipeline's share of a job's plan: the segments and ports of what a node runs, its parameter groups, and how many
// solvers it has.
#include "scheduler/plan/pipeline_plan.h"

#include "scheduler/plan/job_plan.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>
#include <set>
#include <vector>

namespace hp {
namespace {

constexpr int kConvPool = 4;  // enough to hide a round trip behind three micro-batches

/// By segment: whether shards compute all of it, on a CPU node with replicas as well. A GPU has its tasks queued before
/// they run, and nothing gets in between the layers of one.
std::vector<bool> UrgentSegments(const NodePlan& node, const RoutingTable& table, Rank rank) {
  if (table.node(rank).device != "cpu") return {};
  const std::vector<StagePart>& parts = table.node(rank).parts;
  const auto replica = [&](const StagePart& part) { return table.stage(part.stage).conv; };
  if (std::none_of(parts.begin(), parts.end(), replica) || std::all_of(parts.begin(), parts.end(), replica)) return {};
  std::vector<bool> urgent(static_cast<size_t>(node.segments()), true);
  for (const LayerPlan& layer : node.layers()) {
    if (table.stage(node.placement().stage_of(layer.layer)).conv) urgent[static_cast<size_t>(layer.segment)] = false;
  }
  return urgent;
}

PhasePlan PhaseOf(const NodePlan& node, const NodePlan& all) {
  const bool train = node.graph().phase().train();
  PhasePlan phase;
  phase.segments = node.segments();
  for (int segment = 0; segment < node.segments(); ++segment) {
    phase.backward.push_back(train && node.has_backward(segment));
  }
  phase.ports = node.ports();
  if (!train) return phase;
  for (const std::vector<int>& group : all.param_groups()) {
    PhasePlan::GroupSegments& segments = phase.groups.emplace_back();
    for (const int i : group) {
      const LayerPlan* const layer = node.FindLayer(all.layers()[i].layer);
      if (layer == nullptr) continue;
      if (segments.first < 0) segments.first = layer->segment;
      segments.last = layer->segment;
    }
  }
  return phase;
}

}  // namespace

PipelinePlan JobPlan::pipeline(Rank rank) const {
  PipelinePlan plan;
  const NodePlan& all = node(rank, caffe::TRAIN);
  for (const Phase phase : phases()) {
    std::vector<PhasePlan>& of_phase = plan.phases.emplace_back();
    for (int variant = 0; variant < variants(rank); ++variant) {
      of_phase.push_back(PhaseOf(node(rank, phase, variant), all));
      of_phase.back().urgent = UrgentSegments(node(rank, phase, variant), table(), rank);
    }
  }
  plan.phase_of_ids = schedule_->phase_of_ids();
  for (const std::vector<int>& layers : all.param_groups()) {
    const LayerPlan& layer = all.layers()[layers[0]];
    ParamGroupPlan group;
    for (const int i : layers) group.layers.push_back(all.layers()[i].layer);
    group.stage = train().placement->stage_of(layer.layer);
    const StageInfo& stage = table().stage(group.stage);
    group.layer = layer.layer;
    group.segment = layer.segment;
    group.deferred = layer.deferred;
    group.in_backward = layer.in_backward;
    const bool pushes = stage.conv && stage.served >= 0;
    group.counts = !pushes && (!stage.conv || stage.ranks[0] == rank);
    if (pushes) {
      group.exchange = GroupExchange::kPush;
    } else if (stage.conv && stage.size() > 1) {
      group.exchange = GroupExchange::kSum;
    }
    plan.ordered_backward |= group.in_backward;
    plan.groups.push_back(group);
  }
  AddServedGroups(rank, &plan);
  plan.replicas = schedule_->shape().replicas;
  plan.share = ShareOf(rank);
  plan.staleness = table().staleness();
  plan.wait_for_verdict = options_.solver.clip_gradients() >= 0 || options_.solver.larc() || table().scales_loss();
  plan.pool_size = PoolSize(rank);
  return plan;
}

// What is one group on the replicas is one on a server.
void JobPlan::AddServedGroups(Rank rank, PipelinePlan* plan) const {
  const StagePart& part = table().node(rank).parts[0];
  if (!table().stage(part.stage).server) return;
  std::set<int> known;
  for (const ParamPlan& param : node(rank, caffe::TRAIN).params()) {
    if (!known.insert(param.graph_layer).second) continue;
    ParamGroupPlan group;
    group.layers = {param.graph_layer};
    group.stage = part.stage;
    group.layer = param.graph_layer;
    group.deferred = true;
    group.exchange = GroupExchange::kServe;
    plan->groups.push_back(group);
  }
}

// Every micro-batch of a training has samples, so each is an id.
int64_t JobPlan::IdsOf(Rank rank) const {
  return schedule_->shape().max_iter == 0 ? 1 : std::ssize(schedule_->TrainIds(0, ShareOf(rank)));
}

int64_t JobPlan::PoolForLead(Rank rank) const { return table().staleness() * IdsOf(rank) + 1; }

int JobPlan::PoolSize(Rank rank) const {
  if (table().node(rank).pool_size > 0) return table().node(rank).pool_size;
  const int64_t ids = IdsOf(rank);
  if (table().stage(table().node(rank).parts[0].stage).server) return 1;
  const auto conv = [this](const StagePart& part) { return table().stage(part.stage).conv; };
  const std::vector<StagePart>& parts = table().node(rank).parts;
  const bool replica = std::all_of(parts.begin(), parts.end(), conv);
  const int64_t wanted = replica ? kConvPool : std::max(2 * table().replicas(), kConvPool);
  const int64_t pool = table().staleness() > 0 ? std::max(wanted, PoolForLead(rank)) : std::min(ids, wanted);
  return static_cast<int>(std::min(pool, kMaxPoolSize));
}

}  // namespace hp
