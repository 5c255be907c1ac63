#pragma once

#include "layers/traits/layer_types.h"

namespace hp {

// Checks of LayerTraits::Create that hold for every type. Both return kInvalidArgument, naming the layer and the field.

/// Checks the numbers of bottoms and tops, typed parameters that belong to other types, loss weights, and Caffe's
/// fields that are known but not supported (parameter sharing, propagate_down, inline blobs).
Status CheckCommonFields(const LayerType& type, const caffe::LayerParameter& param);

/// Checks that a top has a bottom's name only where the layer can work in place, and only top 0 that of bottom 0.
Status CheckInPlace(const LayerType& type, const caffe::LayerParameter& param);

}  // namespace hp
