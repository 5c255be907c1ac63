#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <vector>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

// Where the tops of layers that only copy lie in their bottoms. All return kInvalidArgument, naming the layer, what it
// got and what would fit, where the fields do not fit the bottoms' shapes.

/// Of a Slice: the axis, counted from 0, and the sizes of the tops along it.
struct SlicedAxis {
  int axis = 1;
  std::vector<int64_t> sizes;
};
StatusOr<SlicedAxis> SlicedAxisOf(const caffe::LayerParameter& param, const Shape& in);

/// Of a Crop: the index in bottom 0 of the top's first element along each axis.
StatusOr<std::vector<int64_t>> CropOffsets(const caffe::LayerParameter& param, const std::vector<Shape>& in);

/// Of a Tile: the axis, counted from 0.
StatusOr<int> TiledAxis(const caffe::LayerParameter& param, const Shape& in);

}  // namespace hp
