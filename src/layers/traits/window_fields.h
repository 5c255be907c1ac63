#pragma once

#include "hp/status.h"

#include <cstdint>
#include <span>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// Height and width of a window, a stride, a padding or a dilation.
struct HeightWidth {
  int64_t height = 0, width = 0;
};

/// One such pair as a prototxt gives it: in a field that holds for both axes or lists one value for each, or in a field
/// of each axis, not in both ways.
struct WindowField {
  const char* message;  ///< "convolution_param"
  const char* both;     ///< "kernel_size"
  const char* each;     ///< "kernel": kernel_h and kernel_w; null: there are no such fields
  std::span<const uint32_t> values;
  bool has_height = false, has_width = false;
  uint32_t height = 0, width = 0;
};

/// @param fallback for an axis that no field gives; -1: it has to be given.
/// @param least the least value that makes sense: 1, for a padding 0.
/// @return kInvalidArgument: names the layer, the field, what stood there and what was expected.
StatusOr<HeightWidth> ReadWindowField(const caffe::LayerParameter& param, const WindowField& field, int64_t fallback,
                                      int64_t least);

}  // namespace hp
