#pragma once

#include "base/element_type.h"
#include "base/shape.h"

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace hp {

/// Shape, memory layout and element type of a tensor. Elements are stored as [N][C/block][spatial][block], without
/// padding, so every layout of a shape takes equally many bytes:
///   channel_block = 1   dense row-major NCHW, the layout of files and of the network;
///   channel_block = 16  oneDNN's nChw16c (8: nChw8c); the block always divides C;
///   channel_block = C   NHWC.
/// A tensor of rank < 3 is dense whatever its block says; write it with block 1. Two descs can describe the same order
/// of elements and differ (one channel, one pixel): backend/layout.h compares orders.
struct TensorDesc {
  Shape shape;
  int64_t channel_block = 1;
  ElementType element = ElementType::kFloat32;

  int64_t count() const { return shape.count(); }  ///< elements
  size_t bytes() const { return static_cast<size_t>(count()) * BytesOf(element); }
  /// Whether elements are in row-major NCHW order by the desc alone.
  bool dense() const { return channel_block == 1 || shape.rank() < 3; }
  /// Whether its memory is as in files: dense float32.
  bool plain() const { return dense() && element == ElementType::kFloat32; }
  bool operator==(const TensorDesc&) const = default;
};

/// A view of a tensor in memory that it does not own (a Buffer's); valid as long as that memory. `data` is in the
/// memory of the device that works on it, so host code may dereference it only on the host's device. In an op's
/// arguments null means "not wanted".
struct Tensor {
  TensorDesc desc;
  void* data = nullptr;

  /// The data of a float32 tensor (assert); null if it has none.
  float* floats() const {
    assert(desc.element == ElementType::kFloat32);
    return static_cast<float*>(data);
  }
  int64_t count() const { return desc.count(); }
  const Shape& shape() const { return desc.shape; }
};

/// Offset in elements of element (n, c, s) of the tensor, s the row-major index within the spatial dims (h * W + w).
/// Rank at least 2; indices are not checked.
inline int64_t ElementOffset(const TensorDesc& desc, int64_t n, int64_t c, int64_t s) {
  const int64_t channels = desc.shape.dim(1), spatial = desc.shape.rank() > 2 ? desc.shape.count(2) : 1;
  const int64_t block = desc.dense() ? 1 : desc.channel_block;
  return ((n * (channels / block) + c / block) * spatial + s) * block + c % block;
}

}  // namespace hp
