#include "scheduler/planner/node_time.h"

#include <algorithm>

namespace hp {
namespace {

double ShareOf(const NodePlan& plan, const LayerPlan& layer, const std::vector<Shape>& shapes) {
  for (const ParamPlan& param : plan.params()) {
    if (param.graph_layer != layer.layer) continue;
    return static_cast<double>(param.block.count()) / static_cast<double>(param.spec.shape.count());
  }
  const GraphLayer& entry = plan.graph().layers()[layer.layer];
  // Of classes in slices the channels are those of the bottom.
  const bool classes = entry.piece == GraphLayer::kClasses || entry.piece == GraphLayer::kMerged;
  const int blob = classes ? plan.graph().ClassesOf(layer.layer) : entry.tops[0];
  const int64_t whole = shapes[blob].dim(1);
  return whole > 1 ? std::min(1.0, static_cast<double>(layer.channels.size()) / static_cast<double>(whole)) : 1;
}

}  // namespace

NodeTimes::NodeTimes(const NodePlan& plan, const LayerTimes& times) : plan_(&plan), times_(&times) {
  // The plan was made with these shapes.
  const std::vector<Shape> shapes = plan.graph().Shapes(plan.sample(), 1).value();
  for (const LayerPlan& layer : plan.layers()) shares_.push_back(ShareOf(plan, layer, shapes));
}

std::vector<NodeTimes::LayerPass> NodeTimes::ForwardPasses(int segment, double rows) const {
  std::vector<LayerPass> passes;
  for (int i = 0; i < static_cast<int>(shares_.size()); ++i) {
    const LayerPlan& layer = plan_->layers()[i];
    if (layer.segment != segment) continue;
    passes.push_back({i, times_->Seconds(layer.layer, Pass::kForward, rows, shares_[i])});
  }
  return passes;
}

std::vector<NodeTimes::LayerPass> NodeTimes::BackwardPasses(int segment, double rows) const {
  std::vector<LayerPass> passes;
  for (int i = static_cast<int>(shares_.size()); i-- > 0;) {
    const LayerPlan& layer = plan_->layers()[i];
    if (layer.segment != segment || !layer.backward) continue;
    LayerPass pass{i, times_->Seconds(layer.layer, Pass::kInputGradient, rows, shares_[i])};
    if (layer.in_backward) pass.seconds += times_->Seconds(layer.layer, Pass::kWeightGradient, rows, shares_[i]);
    passes.push_back(pass);
  }
  return passes;
}

double NodeTimes::SumOf(const std::vector<LayerPass>& passes) {
  double seconds = 0;
  for (const LayerPass& pass : passes) seconds += pass.seconds;
  return seconds;
}

double NodeTimes::WeightGradient(int index, double rows) const {
  const LayerPlan& layer = plan_->layers()[index];
  if (layer.deferred || layer.in_backward) return 0;
  return times_->Seconds(layer.layer, Pass::kWeightGradient, rows, shares_[index]);
}

double NodeTimes::Update(int index) const {
  const LayerPlan& layer = plan_->layers()[index];
  const double update = times_->UpdateSeconds(layer.layer, shares_[index]);
  if (!layer.deferred) return update;
  const double rows = static_cast<double>(plan_->update_rows());
  return update + times_->Seconds(layer.layer, Pass::kWeightGradient, rows, shares_[index]);
}

}  // namespace hp
