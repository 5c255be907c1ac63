#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <vector>

namespace caffe {
class LayerParameter;
}

namespace hp {

/// A pooling of an SPP: windows that do not overlap, side by side.
struct PyramidLevel {
  int64_t kernel_h = 1, kernel_w = 1;  ///< and the stride
  int64_t pad_h = 0, pad_w = 0;
  int64_t out_h = 1, out_w = 1;
};

/// Those of an SPP for its bottom [rows, channels, height, width]: of one window, of 2 x 2, 4 x 4, ...
/// @return kInvalidArgument, naming the layer: a level that the bottom is too small for.
StatusOr<std::vector<PyramidLevel>> PyramidOf(const caffe::LayerParameter& param, const Shape& in);

}  // namespace hp
