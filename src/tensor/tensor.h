#pragma once

#include "base/shape.h"

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace hp {

/// How one element is stored. The 16-bit ones exist on GPUs alone, between ops: files, the wire and parameters are
/// float32.
enum class ElementType : uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr size_t BytesOf(ElementType element) { return element == ElementType::kFloat32 ? 4 : 2; }

/// Shape and memory layout of a tensor. Elements are stored as [N][C/block][spatial][block], without padding:
///   channel_block = 1   dense row-major NCHW, the layout of files and of the wire;
///   channel_block = 16  oneDNN's nChw16c (8: nChw8c); the block always divides C;
///   channel_block = C   NHWC.
/// A tensor of rank < 3 is dense whatever its block says, and is written with block 1.
struct TensorDesc {
  Shape shape;
  int64_t channel_block = 1;
  ElementType element = ElementType::kFloat32;

  int64_t count() const { return shape.count(); }
  size_t bytes() const { return static_cast<size_t>(count()) * BytesOf(element); }
  bool dense() const { return channel_block == 1 || shape.rank() < 3; }
  /// Whether it lies in memory as in files and on the wire.
  bool plain() const { return dense() && element == ElementType::kFloat32; }
  bool operator==(const TensorDesc&) const = default;
};

/// A view of a tensor in somebody else's memory; `data` may be null where an argument is not wanted.
struct Tensor {
  TensorDesc desc;
  void* data = nullptr;

  /// The data of a float32 tensor.
  float* floats() const {
    assert(desc.element == ElementType::kFloat32);
    return static_cast<float*>(data);
  }
  int64_t count() const { return desc.count(); }
  const Shape& shape() const { return desc.shape; }
};

/// Offset in elements of logical element (n, c, s) with s the index within the spatial dims.
inline int64_t ElementOffset(const TensorDesc& desc, int64_t n, int64_t c, int64_t s) {
  const int64_t channels = desc.shape.dim(1), spatial = desc.shape.rank() > 2 ? desc.shape.count(2) : 1;
  const int64_t block = desc.dense() ? 1 : desc.channel_block;
  return ((n * (channels / block) + c / block) * spatial + s) * block + c % block;
}

}  // namespace hp
