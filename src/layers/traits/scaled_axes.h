#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// The axes of bottom 0, [begin, end), over which the factors of a Scale layer run; perhaps none.
struct ScaledAxes {
  int begin = 1, end = 2;

  /// The shape of the factors of `bottom`; [1] for no axes.
  Shape shape(const Shape& bottom) const {
    std::vector<int64_t> dims(bottom.dims().begin() + begin, bottom.dims().begin() + end);
    return dims.empty() ? Shape{1} : Shape(dims);
  }
};

/// Of a layer of type Scale with bottoms of shapes `in`. @return kInvalidArgument, naming the layer: axes that bottom 0
/// does not have, or a second bottom of another shape.
StatusOr<ScaledAxes> ScaledAxesOf(const caffe::LayerParameter& param, const std::vector<Shape>& in);

}  // namespace hp
