#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// Checks the bottoms of a layer that reads labels (losses, Accuracy): logits [rows, classes] or [rows, classes, 1, 1],
/// and labels with one element for each row, of any shape; the latter may be missing from `in`.
/// @param axis of the classes as the layer's parameter gives it, must mean axis 1; negative ones count from the end.
/// @return kInvalidArgument: names the layer, the shape found and the one expected.
Status CheckLabelledInputs(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis);

/// The same for a layer that takes a label for each pixel as well: logits [rows, classes, ...], labels [rows, ...] with
/// as many elements as the logits of a class.
Status CheckPixelInputs(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis);

}  // namespace hp
