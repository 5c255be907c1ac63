#pragma once

#include "base/shape.h"
#include "hp/status.h"

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// kInvalidArgument with a printf-style message after the layer's name: `layer "conv1": MESSAGE`. Every message about a
/// layer is made with it. Say what stood there and what would fit.
Status LayerError(const caffe::LayerParameter& param, const char* format, ...) __attribute__((format(printf, 2, 3)));

/// Of a layer that does not work along axis 0, the batch: `axis`, as the field says it, is that, or none of `in`'s.
/// @param field "softmax_param { axis".
Status AxisError(const caffe::LayerParameter& param, const char* field, int axis, const Shape& in);

}  // namespace hp
