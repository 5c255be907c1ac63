#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}

namespace hp {

// What the layers that read records have in common.

/// Checks that a layer has a top of values and at most one of labels. Caffe's HDF5Data and DummyData have any number.
/// @return kInvalidArgument, naming the layer and its tops.
Status CheckLabelTops(const caffe::LayerParameter& param);

/// The shapes of the tops of a layer that hands records on as they are. @param in one, [rows, channels, height, width].
/// @return kInvalidArgument: `in` is another.
StatusOr<std::vector<Shape>> RecordShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in);

}  // namespace hp
