#pragma once

#include "layers/traits/layer_types.h"

namespace hp {

/// Checks what all layers have in common: the number of bottoms and tops, fields that belong to other types, loss
/// weights, and Caffe's fields that are known but not supported (parameter sharing, propagate_down, inline blobs).
Status CheckCommonFields(const LayerType& type, const caffe::LayerParameter& param);

/// Whether tops that share a bottom's name do so where the layer can work in place: top 0 on bottom 0.
Status CheckInPlace(const LayerType& type, const caffe::LayerParameter& param);

}  // namespace hp
