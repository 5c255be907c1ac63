#include "scheduler/plan/net_facts.h"

#include "proto/net_filter.h"

#include <algorithm>

namespace hp {

BatchSize BatchSizeOf(const caffe::NetParameter& net, Phase phase, const LayerTypes& types) {
  BatchSize input;
  for (int i : LayersOf(net, phase)) {
    const caffe::LayerParameter& layer = net.layer(i);
    const int64_t samples = types.BatchSize(layer);
    if (types.IsDataset(layer)) return {samples, layer.name()};
    if (input.samples < 0 && samples >= 0) input = {samples, layer.name()};
  }
  return input;
}

bool UsesBatchStatistics(const caffe::NetParameter& net, const LayerTypes& types) {
  const std::vector<int> layers = LayersOf(net, caffe::TRAIN);
  return std::any_of(layers.begin(), layers.end(), [&](int i) { return types.UsesBatchStatistics(net.layer(i)); });
}

}  // namespace hp
