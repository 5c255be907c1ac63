#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// What an ArgMax chooses from: of a tensor [outer][width][inner], along the width.
struct RankedAxis {
  int64_t width = 1, inner = 1;
};

/// Of a bottom of shape `in`: its axis, or all behind axis 0. @return kInvalidArgument, naming the layer: an axis that
/// it does not have, or fewer elements than are wanted.
StatusOr<RankedAxis> RankedAxisOf(const caffe::LayerParameter& param, const Shape& in);

}  // namespace hp
