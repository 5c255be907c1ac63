#pragma once

#include "hp/status.h"

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// kInvalidArgument with the layer's name in front: `layer "conv1": MESSAGE`.
Status LayerError(const caffe::LayerParameter& param, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace hp
