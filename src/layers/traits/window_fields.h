#pragma once

#include "hp/status.h"

#include <cstdint>
#include <span>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// Height and width of a window, a stride, a padding or a dilation, in pixels.
struct HeightWidth {
  int64_t height = 0, width = 0;
};

/// A pair as a prototxt gives it, in one of two ways: by one field with a value for both axes or one for each
/// (kernel_size), or by a field for each axis (kernel_h, kernel_w).
struct WindowField {
  const char* message;                         ///< "convolution_param", for messages
  const char* both;                            ///< "kernel_size"
  const char* each;                            ///< "kernel" of kernel_h and kernel_w; null: there are no such fields
  std::span<const uint32_t> values;            ///< of field `both`; empty: not set
  bool has_height = false, has_width = false;  ///< whether the fields of each axis are set
  uint32_t height = 0, width = 0;              ///< and their values
};

/// Reads the pair and checks it.
/// @param fallback the value where no field is set; -1: one has to be set. Where it is 0 one axis may be set alone.
/// @param least the smallest valid value: 1, for a padding 0.
/// @return kInvalidArgument: names the layer, the field, what stood there and what was expected.
StatusOr<HeightWidth> ReadWindowField(const caffe::LayerParameter& param, const WindowField& field, int64_t fallback,
                                      int64_t least);

}  // namespace hp
