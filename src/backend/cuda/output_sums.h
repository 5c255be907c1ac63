#pragma once

#include "backend/cuda/column_sums.h"
#include "backend/cuda/plane_sums.h"
#include "backend/layout.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>

namespace hp::cuda {

/// The bias gradient of a convolution: sums over each channel of its output's gradient, in the output's layout. Calls
/// put work into `stream`.
class OutputSums {
 public:
  /// @param output of rank above 2; float32 if dense. @param groups above 1: its channels lie in groups, each NHWC
  /// (channel_groups.h).
  explicit OutputSums(const TensorDesc& output, int64_t groups = 1)
      : output_(output), groups_(groups), columns_(output.shape[1] / groups), rows_(output.count() / output.shape[1]) {}

  /// Of what Sum needs as scratch, and of what TakeRelu leaves for Add.
  size_t bytes() const { return sizeof(float) * groups_ * floats(); }
  /// Puts to[c] = (to[c] +) the sum of channel c of dy.
  void Sum(const GpuStream& stream, const void* dy, bool add, float* to, float* scratch) const {
    if (!nhwc()) return PlaneSums(stream, output_.shape, static_cast<const float*>(dy), add, to, scratch);
    for (int64_t g = 0; g < groups_; ++g) {
      ColumnSums(stream, rows_, columns_, output_.element, OfGroup(dy, g), add, to + g * columns_,
                 scratch + g * floats());
    }
  }
  /// dy becomes dy * ReLU'(y). @param sums [bytes()] for Add; null: no bias gradient.
  void TakeRelu(const GpuStream& stream, const void* y, void* dy, float* sums) const {
    if (!nhwc()) {
      return ReluPlaneSums(stream, output_.shape, static_cast<const float*>(y), static_cast<float*>(dy), sums);
    }
    for (int64_t g = 0; g < groups_; ++g) {
      ReluColumnSums(stream, rows_, columns_, output_.element, OfGroup(y, g), const_cast<void*>(OfGroup(dy, g)),
                     sums == nullptr ? nullptr : sums + g * floats());
    }
  }
  /// The rest of Sum, behind TakeRelu.
  void Add(const GpuStream& stream, const float* sums, bool add, float* to) const {
    if (!nhwc()) return AddPlaneSums(stream, output_.shape, sums, add, to);
    for (int64_t g = 0; g < groups_; ++g) {
      AddColumnSums(stream, rows_, columns_, sums + g * floats(), add, to + g * columns_);
    }
  }

 private:
  bool nhwc() const { return LiesNhwc(output_); }
  /// That a group's sums take.
  int64_t floats() const { return nhwc() ? ColumnSumsScratch(rows_, columns_) : PlaneSumsScratch(output_.shape); }
  const void* OfGroup(const void* data, int64_t group) const {
    return static_cast<const std::byte*>(data) + group * rows_ * columns_ * BytesOf(output_.element);
  }

  TensorDesc output_;
  int64_t groups_;
  int64_t columns_, rows_;  // of a group's matrix [pixels of all images, channels]
};

}  // namespace hp::cuda
