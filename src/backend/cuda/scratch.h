#pragma once

#include <cstddef>

namespace hp::cuda {

/// Plans the pieces of an op's scratch area, in the op's constructor. bytes() becomes the op's scratch_bytes().
class ScratchPlan {
 public:
  /// Appends a piece. @return its offset, a multiple of 256 (the alignment of a GPU's allocations).
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

/// The address of the piece at `offset`, a result of ScratchPlan::Add.
inline float* ScratchFloats(std::byte* scratch, size_t offset) { return reinterpret_cast<float*>(scratch + offset); }

}  // namespace hp::cuda
