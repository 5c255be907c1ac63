#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// Whether bottoms [logits, labels] (or logits alone) fit a layer that reads labels: classes along axis 1, one label
/// for each row.
/// @param axis as the layer's parameters give it; negative ones count from the end.
Status CheckLabelledInputs(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis);

}  // namespace hp
