#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}

namespace hp {

// What the layers that read records have in common.

/// The shapes of the tops of a layer that hands records on as they are, of those behind the first as if they had one
/// number for each row. @param in one, [rows, channels, height, width].
/// @return kInvalidArgument: `in` is another.
StatusOr<std::vector<Shape>> RecordShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in);

}  // namespace hp
