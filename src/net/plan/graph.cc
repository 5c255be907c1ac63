// Layers are added in the order of the prototxt, so a bottom is whatever blob was the latest of its name: Caffe's rule.
// An in-place layer makes a new blob of the same name, whose memory is decided later. Then gradients are marked in two
// passes: upwards, what has a learning parameter below it; downwards, what leads to a loss.
#include "net/plan/graph.h"

#include "proto/net_filter.h"

#include <algorithm>

namespace hp {

StatusOr<std::unique_ptr<NetGraph>> NetGraph::Create(std::shared_ptr<const caffe::NetParameter> net, caffe::Phase phase,
                                                     const LayerTypes& types) {
  auto graph = std::make_unique<NetGraph>();
  graph->net_ = std::move(net);
  graph->phase_ = phase;
  for (int i = 0; i < graph->net_->layer_size(); ++i) {
    const caffe::LayerParameter& param = graph->net_->layer(i);
    if (!LayerIsIn(param, StateOf(*graph->net_, phase))) continue;
    HP_ASSIGN_OR_RETURN(const LayerTraits traits, LayerTraits::Create(param, types));
    HP_RETURN_IF_ERROR(graph->AddLayer(i, traits));
  }
  if (graph->layers_.empty()) {
    return InvalidArgument("net \"%s\" has no layers in phase %s", graph->net_->name().c_str(),
                           caffe::Phase_Name(phase).c_str());
  }
  graph->MarkGradients();
  return graph;
}

Status NetGraph::AddLayer(int order, const LayerTraits& traits) {
  const caffe::LayerParameter& param = traits.param();
  GraphLayer entry(traits);
  entry.order = order;
  entry.source = traits.is_source();
  entry.learns = traits.learns();
  const int index = static_cast<int>(layers_.size());
  for (const std::string& name : param.bottom()) {
    auto found = std::find_if(current_.begin(), current_.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == current_.end()) {
      return InvalidArgument("layer \"%s\": bottom \"%s\" is not produced by any earlier layer", param.name().c_str(),
                             name.c_str());
    }
    entry.bottoms.push_back(found->second);
    blobs_[found->second].consumers.push_back(index);
  }
  for (int top = 0; top < param.top_size(); ++top) {
    const std::string& name = param.top(top);
    auto found = std::find_if(current_.begin(), current_.end(), [&](const auto& entry) { return entry.first == name; });
    const bool in_place = top == 0 && param.bottom_size() > 0 && param.bottom(0) == name;
    if (found != current_.end() && !in_place) {
      return InvalidArgument("layer \"%s\": top \"%s\" is already produced by layer \"%s\"", param.name().c_str(),
                             name.c_str(), layers_[blobs_[found->second].producer].param->name().c_str());
    }
    if (in_place && !traits.allows_in_place()) {
      return InvalidArgument("layer \"%s\": a %s layer can't work in place (bottom and top are both \"%s\")",
                             param.name().c_str(), param.type().c_str(), name.c_str());
    }
    // A blob that somebody else reads too is not overwritten: the layer gets memory of its own.
    const bool overwrites = in_place && blobs_[entry.bottoms[0]].consumers.size() == 1;
    entry.in_place |= overwrites;
    GraphBlob blob;
    blob.name = name;
    blob.producer = index;
    blob.top_index = top;
    blob.label = traits.yields_labels(top);
    const int id = static_cast<int>(blobs_.size());
    blobs_.push_back(blob);
    entry.tops.push_back(id);
    if (found != current_.end()) {
      found->second = id;
    } else {
      current_.emplace_back(name, id);
    }
  }
  if (traits.source() == SourceKind::kDataset) {
    if (data_layer_ >= 0) {
      return InvalidArgument("layer \"%s\": a second Data layer in one phase (the first is \"%s\") is not supported",
                             param.name().c_str(), layers_[data_layer_].param->name().c_str());
    }
    data_layer_ = index;
  }
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const bool reads_label = traits.reads_labels() && i == 1;
    if (blobs_[entry.bottoms[i]].label && !reads_label) {
      return InvalidArgument("layer \"%s\": bottom \"%s\" is a label; only losses and accuracies can read labels",
                             param.name().c_str(), param.bottom(i).c_str());
    }
    if (!blobs_[entry.bottoms[i]].label && reads_label && !layers_[blobs_[entry.bottoms[i]].producer].source) {
      return InvalidArgument("layer \"%s\": bottom \"%s\" must be the label of a Data layer", param.name().c_str(),
                             param.bottom(i).c_str());
    }
  }
  layers_.push_back(std::move(entry));
  return OkStatus();
}

void NetGraph::MarkGradients() {
  for (GraphLayer& layer : layers_) {
    bool learns = layer.learns;
    for (int bottom : layer.bottoms) learns |= blobs_[bottom].needs_gradient;
    if (layer.traits.is_statistic() && layer.traits.loss_weight(0) == 0) learns = false;
    // A test has no backward pass.
    for (int top : layer.tops) blobs_[top].needs_gradient = learns && !layer.source && phase_ == caffe::TRAIN;
  }
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    for (size_t i = 0; i < layer->tops.size(); ++i) {
      if (layer->traits.is_statistic() && layer->traits.loss_weight(i) != 0) layer->leads_to_loss = true;
      for (int consumer : blobs_[layer->tops[i]].consumers) layer->leads_to_loss |= layers_[consumer].leads_to_loss;
    }
  }
}

int64_t NetGraph::batch_size() const {
  if (data_layer_ >= 0) return layers_[data_layer_].traits.batch_size();
  for (const GraphLayer& layer : layers_) {
    if (layer.source) return std::max<int64_t>(0, layer.traits.batch_size());
  }
  return 0;
}

StatusOr<std::vector<Shape>> NetGraph::Shapes(const Shape& sample, int64_t rows) const {
  std::vector<Shape> shapes(blobs_.size());
  for (const GraphLayer& layer : layers_) {
    if (layer.source) {
      std::vector<int64_t> dims = {rows};
      dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
      for (size_t i = 0; i < layer.tops.size(); ++i) shapes[layer.tops[i]] = i == 0 ? Shape(dims) : Shape{rows};
      if (!Shape(dims).InBounds()) {
        return InvalidArgument("layer \"%s\": %lld samples of shape [%s] are too large; expected at most %lld elements",
                               layer.traits.name().c_str(), static_cast<long long>(rows), sample.ToString().c_str(),
                               static_cast<long long>(Shape::kMaxElements));
      }
      continue;
    }
    std::vector<Shape> in;
    for (int bottom : layer.bottoms) in.push_back(shapes[bottom]);
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, layer.traits.OutputShapes(in));
    for (size_t i = 0; i < layer.tops.size() && i < out.size(); ++i) shapes[layer.tops[i]] = out[i];
  }
  return shapes;
}

std::vector<int> NetGraph::outputs() const {
  std::vector<int> outputs;
  for (const GraphLayer& layer : layers_) {
    if (!layer.traits.is_statistic()) continue;
    for (int top : layer.tops) {
      if (blobs_[top].consumers.empty()) outputs.push_back(top);
    }
  }
  return outputs;
}

}  // namespace hp
