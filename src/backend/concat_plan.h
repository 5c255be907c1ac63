#pragma once

#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hp {

/// How tensors side by side along one axis lie in the memory of the whole: each is `outer` pieces of its own length,
/// which alternate in the output. A part in another layout or element type than the output's is brought there first.
struct ConcatPlan {
  struct Part {
    TensorDesc desc, as_output;
    int64_t length = 0, offset = 0;  ///< of its pieces, within `stride`, in elements of the output
    bool reordered = false;          ///< from desc to as_output
  };

  /// The output has the inputs' layout where that fits: the block that all have and that (channels side by side)
  /// divides each; NHWC where all are NHWC; else it is dense. Inputs of several element types make it float32.
  /// @param blocks whether the device has layouts in blocks of 8 and 16, which 8 or 16 channels then are.
  ConcatPlan(int axis, const std::vector<TensorDesc>& in, bool blocks);

  TensorDesc output;
  std::vector<Part> parts;
  int64_t outer = 1, stride = 0;
  size_t scratch_bytes = 0;  ///< for the largest part that is reordered
};

}  // namespace hp
