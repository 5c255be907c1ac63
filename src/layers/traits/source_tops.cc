#include "layers/traits/source_tops.h"

#include "layers/traits/label_paths.h"
#include "proto/caffe.pb.h"
#include "proto/net_filter.h"

#include <algorithm>

namespace hp {
namespace {

/// How layers read a top of a source.
struct Readers {
  bool as_classes = false, as_values = false;
  bool as_targets = false;  // labels would do, and so would an ordinary blob
  bool counted = false;     // some must know how many of a whole batch count
  bool sampled = false;     // some draws a sample of classes with those of a whole batch
};

/// Whether the scores that a loss reads are a sample of the classes, which is drawn by the labels of a whole batch.
bool ReadsSample(const caffe::NetParameter& net, const std::vector<int>& layers, const caffe::LayerParameter& loss,
                 const LayerTypes& types) {
  return std::any_of(layers.begin(), layers.end(), [&](int i) {
    const caffe::LayerParameter& layer = net.layer(i);
    const LayerType* const type = types.Find(layer.type());
    return type != nullptr && type->sample_rate != nullptr && type->sample_rate(layer) < 1 && layer.top_size() > 0 &&
           layer.top(0) == loss.bottom(0);
  });
}

void AddReader(const LayerType* type, const caffe::LayerParameter& layer, int bottom, Readers* readers) {
  const bool at_labels = type != nullptr && bottom == static_cast<int>(type->label_bottom);
  const bool as_classes = at_labels && type->reads_labels;
  readers->as_classes |= as_classes;
  readers->counted |= as_classes && type->needs_batch_labels != nullptr && type->needs_batch_labels(layer);
  const bool as_targets = at_labels && type->label_targets;
  readers->as_targets |= as_targets;
  readers->as_values |= !as_classes && !as_targets;
}

/// Up to the layer that makes another blob of this name, which may be one that works in place.
Readers ReadersOf(const caffe::NetParameter& net, const std::vector<int>& layers, int source, const std::string& name,
                  const LayerTypes& types) {
  Readers readers;
  for (const int i : layers) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (i <= source || types.Discards(layer)) continue;
    for (int bottom = 0; bottom < layer.bottom_size(); ++bottom) {
      if (layer.bottom(bottom) != name) continue;
      AddReader(types.Find(layer.type()), layer, bottom, &readers);
      readers.sampled |= readers.as_classes && ReadsSample(net, layers, layer, types);
    }
    if (std::find(layer.top().begin(), layer.top().end(), name) != layer.top().end()) break;
  }
  return readers;
}

/// Rows with several labels stay where they are read, an ordinary blob goes wherever it is read. So what may be several
/// numbers is no labels where nobody takes it for classes.
bool LabelsByPlace(const LayerType* type, const Readers& readers) {
  return (type != nullptr && type->single_labels) || (!readers.as_targets && !readers.as_values);
}

int RankOf(const Readers& readers, bool usual_place) {
  if (readers.sampled) return 4;
  if (readers.counted) return 3;
  return readers.as_classes ? 2 : usual_place ? 1 : 0;
}

}  // namespace

std::vector<SourceTop> SourceTopsOf(const caffe::NetParameter& net, Phase phase, const LayerTypes& types) {
  std::vector<SourceTop> tops;
  const std::vector<int> layers = LayersOf(net, phase);
  size_t labels = 0;
  int rank = 0;
  bool found_usual_place = false;
  for (const int i : layers) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (!types.IsSource(layer)) continue;
    for (int top = 0; top < layer.top_size(); ++top) {
      const Readers readers = ReadersOf(net, layers, i, layer.top(top), types);
      const bool usual_place = !found_usual_place && types.IsDataset(layer) && top == 1;
      found_usual_place |= usual_place;
      const bool by_place = usual_place && LabelsByPlace(types.Find(layer.type()), readers);
      if (const int own = RankOf(readers, by_place); own > rank) {
        rank = own;
        labels = tops.size();
      }
      tops.push_back({.layer = i, .top = top, .role = SourceTop::kOther, .read_as_values = readers.as_values});
    }
  }
  for (const LabelPath& path : LabelPathsOf(net, phase, types)) {
    const auto source = std::find_if(
        tops.begin(), tops.end(), [&](const SourceTop& top) { return path.source == std::pair(top.layer, top.top); });
    source->goes_ahead = true;
  }
  if (rank > 0 && tops.size() > 1) tops[labels].role = SourceTop::kLabels;
  int others = -1;  // the first of them is the data
  for (SourceTop& top : tops) {
    if (top.role == SourceTop::kLabels) continue;
    top.other = others++;
    if (top.other < 0) top.role = SourceTop::kData;
  }
  return tops;
}

Status CheckSources(const caffe::NetParameter& net, Phase phase, const LayerTypes& types) {
  const caffe::LayerParameter* first = nullptr;
  for (const int i : LayersOf(net, phase)) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (!types.IsSource(layer) || types.Find(layer.type()) == nullptr) continue;
    if (first == nullptr) first = &layer;
    if (types.IsDataset(layer) != types.IsDataset(*first)) {
      return InvalidArgument(
          "layer \"%s\" of type %s stands beside layer \"%s\" of type %s in phase %s; expected all sources of a phase "
          "to read records, or all to be given by a program",
          layer.name().c_str(), layer.type().c_str(), first->name().c_str(), first->type().c_str(),
          phase.name().c_str());
    }
    if (types.BatchSize(layer) == types.BatchSize(*first)) continue;
    return InvalidArgument("layer \"%s\" has a batch of %lld samples, and layer \"%s\" of %lld; expected the same",
                           layer.name().c_str(), static_cast<long long>(types.BatchSize(layer)), first->name().c_str(),
                           static_cast<long long>(types.BatchSize(*first)));
  }
  return OkStatus();
}

}  // namespace hp
