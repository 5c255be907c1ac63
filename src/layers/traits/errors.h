#pragma once

#include "hp/status.h"

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// kInvalidArgument with a printf-style message after the layer's name: `layer "conv1": MESSAGE`. Every message about a
/// layer is made with it. Say what stood there and what would fit.
Status LayerError(const caffe::LayerParameter& param, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace hp
