#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <vector>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// The axes of bottom 0, [begin, end), over which the factors of a Scale layer, or the addends of a Bias layer, run;
/// perhaps none.
struct BroadcastAxes {
  int begin = 1, end = 2;

  /// The shape of what is broadcast to `bottom`; [1] for no axes.
  Shape shape(const Shape& bottom) const {
    std::vector<int64_t> dims(bottom.dims().begin() + begin, bottom.dims().begin() + end);
    return dims.empty() ? Shape{1} : Shape(dims);
  }
};

/// Of a layer of type Scale, or of type Bias, with bottoms of shapes `in`. @return kInvalidArgument, naming the layer:
/// axes that bottom 0 does not have, or a second bottom of another shape.
StatusOr<BroadcastAxes> ScaleAxes(const caffe::LayerParameter& param, const std::vector<Shape>& in);
StatusOr<BroadcastAxes> BiasAxes(const caffe::LayerParameter& param, const std::vector<Shape>& in);

}  // namespace hp
