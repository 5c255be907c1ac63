// Which labels a layer reads, and which of a batch's it counts.
#include "net/plan/graph.h"

#include <algorithm>

namespace hp {

// How many labels of a whole batch count must be known before all of it has come.
Status NetGraph::FindLabels(GraphLayer* entry) {
  const LayerTraits& traits = entry->traits;
  if (!traits.reads_labels() && !traits.may_read_labels()) return OkStatus();
  const GraphBlob& labels = blobs_[entry->bottoms[traits.label_bottom()]];
  entry->label_targets = traits.may_read_labels() && labels.label;
  entry->tensor_labels = traits.reads_labels() && !labels.label;
  const auto path = std::find_if(label_paths_.begin(), label_paths_.end(),
                                 [&](const LabelPath& candidate) { return candidate.reader == entry->order; });
  if (path != label_paths_.end()) entry->label_path = static_cast<int>(path - label_paths_.begin());
  if (!traits.needs_batch_labels()) return OkStatus();
  if (path == label_paths_.end()) {
    return InvalidArgument(
        "layer \"%s\": its labels, bottom \"%s\", are computed, so that nobody knows ahead how many of a batch are not "
        "ignored; expected labels of a source, whole or cut by Slice and Reshape, or normalization: BATCH_SIZE, FULL "
        "or NONE",
        traits.name().c_str(), labels.name.c_str());
  }
  entry->label_number = NumberOf({entry->label_path, traits.ignore_label()});
  return OkStatus();
}

int NetGraph::NumberOf(CountedLabels counted) {
  const LabelPath& path = label_paths_[counted.path];
  const bool all_of_labels = path.classes && path.steps.empty() &&
                             std::any_of(source_tops_.begin(), source_tops_.end(), [&](const SourceTop& top) {
                               return top.role == SourceTop::kLabels && path.source == std::pair(top.layer, top.top);
                             });
  if (all_of_labels && counted_labels_[0].path < 0) counted_labels_[0] = counted;
  const auto same = [&](const CountedLabels& other) {
    return other.path >= 0 && label_paths_[other.path].SameLabels(path) && other.ignore_label == counted.ignore_label;
  };
  const auto found = std::find_if(counted_labels_.begin(), counted_labels_.end(), same);
  const int number = static_cast<int>(found - counted_labels_.begin());
  if (found == counted_labels_.end()) counted_labels_.push_back(counted);
  return number;
}

}  // namespace hp
