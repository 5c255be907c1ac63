#include "proto/several_bottoms.h"

#include "base/format.h"

namespace hp {
namespace {

bool HasSeveralBottoms(const caffe::LayerParameter& layer) {
  return TakesSeveralBottoms(layer.type()) && layer.bottom_size() > 1 && layer.bottom_size() == layer.top_size();
}

/// Blobs have one name in all layers: the prototxt's, or one of this layer, which no other of its name has.
void NameBlobs(int index, caffe::LayerParameter* layer) {
  for (int blob = 0; blob < (layer->convolution_param().bias_term() ? 2 : 1); ++blob) {
    if (layer->param_size() <= blob) layer->add_param();
    if (layer->param(blob).name().empty()) {
      layer->mutable_param(blob)->set_name(Format("blob %d of %s, layer %d", blob, layer->name().c_str(), index));
    }
  }
}

/// What the layer is for one of its bottoms. Lists that do not fit are left, for the checks of layers to find.
caffe::LayerParameter ForBottom(const caffe::LayerParameter& layer, int i) {
  caffe::LayerParameter one = layer;
  if (i > 0) one.set_name(Format("%s(%d)", layer.name().c_str(), i + 1));
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

bool TakesSeveralBottoms(const std::string& type) { return type == "Convolution" || type == "Deconvolution"; }

std::vector<std::string> SplitSeveralBottoms(caffe::NetParameter* net) {
  std::vector<std::string> done;
  google::protobuf::RepeatedPtrField<caffe::LayerParameter> layers;
  for (int i = 0; i < net->layer_size(); ++i) {
    caffe::LayerParameter* const layer = net->mutable_layer(i);
    if (!HasSeveralBottoms(*layer)) {
      layers.Add()->Swap(layer);
      continue;
    }
    NameBlobs(i, layer);
    for (int bottom = 0; bottom < layer->bottom_size(); ++bottom) *layers.Add() = ForBottom(*layer, bottom);
    done.push_back(Format("layer \"%s\", a %s of %d bottoms, is read as a layer for each, which share its blobs",
                          layer->name().c_str(), layer->type().c_str(), layer->bottom_size()));
  }
  net->mutable_layer()->Swap(&layers);
  return done;
}

}  // namespace hp
