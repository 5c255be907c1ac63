// What learns, and by what. Gradients are marked in two passes: upwards, what has a learning parameter below it;
// downwards, what leads to a loss.
#include "net/plan/graph.h"

#include <algorithm>

namespace hp {

void NetGraph::MarkGradients() {
  for (GraphLayer& layer : layers_) {
    bool learns = layer.learns;
    for (size_t i = 0; i < layer.bottoms.size(); ++i) {
      learns |= blobs_[layer.bottoms[i]].needs_gradient && layer.propagates(i);
    }
    if (layer.piece == GraphLayer::kClasses || !layer.traits.has_gradient()) learns = false;
    const bool made_of_activations = std::any_of(layer.bottoms.begin(), layer.bottoms.end(),
                                                 [this](int bottom) { return blobs_[bottom].activation; });
    const bool activation = layer.blobs() > 0 || (layer.traits.has_gradient() && made_of_activations);
    for (int top : layer.tops) blobs_[top].activation = activation && !layer.source;
    if (layer.is_statistic() && layer.traits.loss_weight(0) == 0) learns = false;
    // A test has no backward pass.
    for (int top : layer.tops) blobs_[top].needs_gradient = learns && !layer.source && phase_.train();
  }
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (!layer->traits.has_gradient()) continue;
    for (size_t i = 0; i < layer->tops.size(); ++i) {
      if (layer->is_statistic() && layer->traits.loss_weight(i) != 0) layer->leads_to_loss = true;
      for (int consumer : blobs_[layer->tops[i]].consumers) {
        layer->leads_to_loss |= layers_[consumer].leads_to_loss && SendsGradient(consumer, layer->tops[i]);
      }
    }
  }
}

bool NetGraph::SendsGradient(int layer, int blob) const {
  const GraphLayer& reader = layers_[layer];
  for (size_t i = 0; i < reader.bottoms.size(); ++i) {
    if (reader.bottoms[i] == blob && reader.propagates(i)) return true;
  }
  return false;
}

Status NetGraph::CheckTargets() const {
  for (const GraphLayer& layer : layers_) {
    if (!layer.traits.has_fixed_targets() && !layer.tensor_labels) continue;
    const size_t at = layer.label_bottom();
    if (!blobs_[layer.bottoms[at]].needs_gradient || !layer.propagates(at)) continue;
    return InvalidArgument(
        "layer \"%s\": its targets, bottom \"%s\", depend on parameters that learn, but get no gradient; expected "
        "lr_mult: 0 in the layers below them, or a loss that has one, such as EuclideanLoss",
        layer.traits.name().c_str(), blobs_[layer.bottoms[at]].name.c_str());
  }
  return OkStatus();
}

// Only a training draws samples. The pieces of a loss over classes in slices are one layer of the prototxt.
Status NetGraph::MarkSamples() {
  for (int i = 0; i < static_cast<int>(layers_.size()) && phase_.train(); ++i) {
    GraphLayer& product = layers_[i];
    if (product.source || product.traits.sample_rate() == 1) continue;
    const std::vector<int>& readers = blobs_[product.tops[0]].consumers;
    const bool one_loss = !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](int reader) {
      return layers_[reader].order == layers_[readers[0]].order && layers_[reader].bottoms[0] == product.tops[0] &&
             layers_[reader].traits.reads_sample() && !layers_[reader].tensor_labels;
    });
    if (!one_loss) {
      return InvalidArgument(
          "layer \"%s\": with sample_rate below 1 its top \"%s\" must be read by one layer in phase TRAIN, a "
          "SoftmaxWithLoss with one top",
          product.traits.name().c_str(), blobs_[product.tops[0]].name.c_str());
    }
    product.sampled_by = i;
    for (int reader : readers) layers_[reader].sampled_by = i;
  }
  return OkStatus();
}

}  // namespace hp
