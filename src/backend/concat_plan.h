#pragma once

#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hp {

/// Where the elements of concatenated tensors are in the output's memory: each input contributes `outer` contiguous
/// pieces of equal length, and the inputs' pieces alternate with a period of `stride` elements.
///   for each part p and i in [0, outer): output[i * stride + p.offset ...] = part[i * p.length ...], p.length elements
struct ConcatPlan {
  /// One input.
  struct Part {
    TensorDesc desc, as_output;      ///< the input as it is; its shape in the output's layout and element type
    int64_t length = 0, offset = 0;  ///< of its pieces, and of the first one in a period; elements of the output
    bool reordered = false;          ///< whether it is converted from `desc` to `as_output` first
  };

  /// Chooses the output's layout: the block that all inputs have and that divides the channels of each; NHWC where all
  /// are NHWC; else dense. Inputs of several element types make it float32.
  /// @param axis along which they are concatenated, not negative; all other axes are equal.
  /// @param blocks whether the device has layouts in blocks of 8 and 16 channels (the CPU); decides what inputs of
  /// exactly 8 or 16 channels are taken for.
  ConcatPlan(int axis, const std::vector<TensorDesc>& in, bool blocks);

  TensorDesc output;
  std::vector<Part> parts;
  int64_t outer = 1, stride = 0;  ///< pieces of each part; elements from one piece of a part to its next
  size_t scratch_bytes = 0;       ///< of the largest converted part
};

}  // namespace hp
