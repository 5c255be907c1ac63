#pragma once

#include <cstddef>

namespace hp::cuda {

/// Divides an op's scratch into pieces, when the op is made.
class ScratchPlan {
 public:
  /// The offset of `bytes` bytes, as aligned as a device's allocations are.
  size_t Add(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 256;
  size_t bytes_ = 0;
};

/// The piece at `offset`.
inline float* ScratchFloats(std::byte* scratch, size_t offset) { return reinterpret_cast<float*>(scratch + offset); }

}  // namespace hp::cuda
