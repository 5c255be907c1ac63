#include "proto/upgrade/several_bottoms.h"

#include "base/format.h"

#include <algorithm>
#include <vector>

namespace hp {
namespace {

bool HasSeveralBottoms(const caffe::LayerParameter& layer) {
  const bool convolves = layer.type() == "Convolution" || layer.type() == "Deconvolution";
  return convolves && layer.bottom_size() > 1 && layer.bottom_size() == layer.top_size();
}

/// Blobs have one name in all layers: the prototxt's, or one of this layer.
void NameBlobs(caffe::LayerParameter* layer) {
  for (int blob = 0; blob < (layer->convolution_param().bias_term() ? 2 : 1); ++blob) {
    if (layer->param_size() <= blob) layer->add_param();
    if (layer->param(blob).name().empty()) {
      layer->mutable_param(blob)->set_name(Format("%s(blob %d)", layer->name().c_str(), blob));
    }
  }
}

/// What the layer is for one of its bottoms. Lists that do not fit are left, for the checks of layers to find.
caffe::LayerParameter ForBottom(const caffe::LayerParameter& layer, int i) {
  caffe::LayerParameter one = layer;
  if (i > 0) one.set_name(Format("%s(%s)", layer.name().c_str(), layer.bottom(i).c_str()));
  one.clear_bottom();
  one.add_bottom(layer.bottom(i));
  one.clear_top();
  one.add_top(layer.top(i));
  if (layer.loss_weight_size() == layer.top_size()) {
    one.clear_loss_weight();
    one.add_loss_weight(layer.loss_weight(i));
  }
  if (layer.propagate_down_size() == layer.bottom_size()) {
    one.clear_propagate_down();
    one.add_propagate_down(layer.propagate_down(i));
  }
  return one;
}

}  // namespace

void SplitSeveralBottoms(caffe::NetParameter* net, NetUpgrade* upgrade) {
  if (std::none_of(net->layer().begin(), net->layer().end(), HasSeveralBottoms)) return;
  google::protobuf::RepeatedPtrField<caffe::LayerParameter> layers;
  std::vector<NetUpgrade::Origin> origins;
  for (int i = 0; i < net->layer_size(); ++i) {
    caffe::LayerParameter* const layer = net->mutable_layer(i);
    if (!HasSeveralBottoms(*layer)) {
      layers.Add()->Swap(layer);
      origins.push_back(upgrade->origins[i]);
      continue;
    }
    NameBlobs(layer);
    for (int bottom = 0; bottom < layer->bottom_size(); ++bottom) {
      *layers.Add() = ForBottom(*layer, bottom);
      origins.push_back(upgrade->origins[i]);
    }
    upgrade->forms.push_back(Format("a %s of %d bottoms, \"%s\", which becomes as many layers that share its blobs",
                                    layer->type().c_str(), layer->bottom_size(), layer->name().c_str()));
  }
  net->mutable_layer()->Swap(&layers);
  upgrade->origins = std::move(origins);
}

}  // namespace hp
