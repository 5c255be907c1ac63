#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// Checks the bottoms of a loss with one label for each row: scores [rows, ...], each number of a row of a class of its
/// own, and labels with one element for each row, of any shape; the latter may be missing from `in`.
/// @return kInvalidArgument: names the layer, the shape found and the one expected.
Status CheckLabelledRows(const caffe::LayerParameter& param, const std::vector<Shape>& in);

/// The same for a layer whose classes lie along an axis: scores [rows, ..., classes, ...], labels [rows, ...] with as
/// many elements as the scores of a class.
/// @param axis of the classes as the layer's parameter gives it; negative ones count from the end, and 0 is the batch.
Status CheckLabelledAxis(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis);

}  // namespace hp
