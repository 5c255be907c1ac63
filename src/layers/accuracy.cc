#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// The share of rows whose label is among the top_k largest scores, with Caffe's rule for ties: a score that equals the
/// label's ranks before it. Top 0 is these rows' contribution to the share of the whole batch.
StatusOr<LayerOp> MakeAccuracyOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  AccuracyDesc desc;
  desc.top_k = static_cast<int>(layer.param().accuracy_param().top_k());
  desc.has_ignore_label = layer.ignore_label().has_value();
  desc.ignore_label = layer.ignore_label().value_or(desc.ignore_label);
  if (context.part == OpContext::kClasses) return context.backend->TopScores(desc, context.classes(), in);
  if (context.part == OpContext::kJoined) return context.backend->JoinedTopScores(desc, context.classes(), in);
  if (context.part == OpContext::kMerged) return context.backend->SlicedAccuracy(desc, context.channel_count, in);
  desc.axis = in[0].shape.CanonicalAxis(layer.param().accuracy_param().axis());
  return context.backend->Accuracy(desc, {in[0]});
}

}  // namespace hp
