#include "scheduler/planner/divided_net.h"

#include "net/plan/cuts.h"
#include "scheduler/plan/net_tail.h"
#include "scheduler/plan/table_maker.h"

#include <algorithm>
#include <set>

namespace hp {
namespace {

constexpr double kFloatBytes = sizeof(float);

StageLayout LayoutOf(const NetDivision& division, const caffe::NetParameter& net) {
  const int layers = net.layer_size();
  StageLayout layout;
  layout.wire = division.wire;
  // One replica stands for all: what it sends a shard does not depend on their number. Two where there are several,
  // since a replica alone may keep its gradients.
  layout.stages.push_back({true, {0}, false});
  Rank next = 1;
  if (division.replicated) layout.stages[0].ranks.push_back(next++);
  if (division.cut >= 0) {
    layout.stages.push_back({false, {}, division.scattered});
    for (int shard = 0; shard < division.shards; ++shard) layout.stages[1].ranks.push_back(next++);
  }
  layout.split_of_layer.assign(layers, LayerSplit::kOutputs);
  for (int i = 0; i < layers; ++i) layout.stage_of_layer.push_back(division.cut >= 0 && i >= division.cut ? 1 : 0);
  if (division.sides) {
    for (const int layer : SideClassifiers(net, division.cut)) layout.stage_of_layer[layer] = 1;
  }
  for (const auto& [layer, split] : division.splits) layout.split_of_layer[layer] = split;
  return layout;
}

}  // namespace

StatusOr<std::unique_ptr<DividedNet>> DividedNet::Create(const std::shared_ptr<const caffe::NetParameter>& net,
                                                         const SampleShape& sample, const NetDivision& division,
                                                         int64_t update_rows) {
  std::unique_ptr<DividedNet> divided(new DividedNet(division, update_rows));
  const StageLayout layout = LayoutOf(division, *net);
  const LayerTypes& types = LayerTypes::BuiltIn();
  HP_ASSIGN_OR_RETURN(const GraphCuts cuts, FindCuts(net, caffe::TRAIN, types, sample, layout));
  HP_ASSIGN_OR_RETURN(divided->graph_, NetGraph::Create(net, caffe::TRAIN, types, cuts));
  HP_ASSIGN_OR_RETURN(divided->shapes_, divided->graph_->Shapes(sample, 1));
  HP_ASSIGN_OR_RETURN(Placement placement, Placement::Create(*divided->graph_, sample, layout));
  divided->placement_ = std::make_unique<Placement>(std::move(placement));
  divided->costs_ = CostsOf(*divided->graph_, divided->shapes_);
  const auto plan = [&](int stage) {
    const NodePlan::Options options{{{stage, 0}}, sample, update_rows};
    return NodePlan::Create(*divided->graph_, *divided->placement_, options);
  };
  HP_ASSIGN_OR_RETURN(NodePlan replica, plan(0));
  divided->replica_ = std::make_unique<NodePlan>(std::move(replica));
  if (division.cut >= 0) {
    HP_ASSIGN_OR_RETURN(NodePlan shard, plan(1));
    divided->shard_ = std::make_unique<NodePlan>(std::move(shard));
  }
  divided->CountTraffic();
  return divided;
}

void DividedNet::CountTraffic() {
  for (const PortPlan& port : replica_->ports()) {
    (port.landing ? traffic_.replica_in : traffic_.replica_out) += static_cast<double>(port.row_bytes);
  }
  traffic_.wire_share = static_cast<double>(BytesOf(division_.wire)) / sizeof(float);
  for (const LayerCost& cost : costs_) {
    const int layer = static_cast<int>(&cost - costs_.data());
    if (division_.replicated && cost.learns && placement_->stage_of(layer) == 0) {
      traffic_.exchanged += static_cast<double>(cost.learned_bytes);
    }
  }
  if (!shard_) return;
  std::set<int> segments;
  for (const PortPlan& port : shard_->ports()) {
    const bool inner = placement_->edges()[port.edge].within_stage();
    const double bytes = static_cast<double>(port.row_bytes);
    if (inner) {
      (port.landing ? traffic_.inner_in : traffic_.inner_out) += bytes;
      if (port.landing) segments.insert(2 * port.segment + port.gradient);
    } else {
      (port.landing ? traffic_.shard_in : traffic_.shard_out) += bytes;
    }
  }
  hops_ = static_cast<int>(segments.size());
}

double DividedNet::MemoryOf(const NodePlan& plan, double rows, int pool, int histories) const {
  double parameters = 0, values = 0, largest = 0, matrices = 0;
  const double images = plan.reads_images() ? static_cast<double>(plan.sample().Floats(1)) * kFloatBytes : 0;
  for (const ParamPlan& param : plan.params()) {
    const int copies = 1 + (param.spec.lr_mult != 0 ? 1 : 0) + (param.spec.has_histories() ? histories : 0);
    parameters += static_cast<double>(param.block.count()) * kFloatBytes * copies;
  }
  for (const LayerPlan& layer : plan.layers()) {
    const GraphLayer& entry = graph_->layers()[layer.layer];
    const Shape& top = shapes_[entry.tops[0]];
    const double whole = std::max<double>(1, static_cast<double>(top.dim(1)));
    const double part = top.rank() > 1 ? static_cast<double>(layer.channels.size()) / whole : 1;
    const double bytes = static_cast<double>(top.count(1)) * kFloatBytes * std::min(1.0, part);
    const bool overwrites = entry.in_place && !(layer.backward && entry.traits.gradient_reads_input());
    if (entry.source || overwrites || entry.traits.is_view()) continue;
    values += bytes;
    largest = std::max(largest, bytes);
    if (!layer.deferred) continue;
    for (const ParamPlan& param : plan.params()) {
      if (param.graph_layer != layer.layer || param.blob != 0) continue;
      matrices += static_cast<double>(param.block.rows() + param.block.cols()) * kFloatBytes;
    }
  }
  for (const PortPlan& port : plan.ports()) values += static_cast<double>(port.row_bytes);
  // The gradient of a tensor lies beside it in a net of several segments; else two gradients live at a time.
  const double solver = rows * (plan.segments() > 1 ? 2 * values : values + 2 * largest);
  return parameters + matrices * static_cast<double>(update_rows_) + pool * solver + (pool + 2) * rows * images +
         (plan.FindPart(0) >= 0 ? traffic_.exchanged / 2 : 0);
}

}  // namespace hp
