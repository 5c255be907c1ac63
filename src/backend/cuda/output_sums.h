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
  /// @param output of rank above 2; float32 if dense.
  explicit OutputSums(const TensorDesc& output)
      : output_(output), columns_(output.shape[1]), rows_(output.count() / columns_) {}

  /// Of what Sum needs as scratch, and of what TakeRelu leaves for Add.
  size_t bytes() const {
    return sizeof(float) * (nhwc() ? ColumnSumsScratch(rows_, columns_) : PlaneSumsScratch(output_.shape));
  }
  /// Puts to[c] = (to[c] +) the sum of channel c of dy.
  void Sum(const GpuStream& stream, const void* dy, bool add, float* to, float* scratch) const {
    if (nhwc()) return ColumnSums(stream, rows_, columns_, output_.element, dy, add, to, scratch);
    PlaneSums(stream, output_.shape, static_cast<const float*>(dy), add, to, scratch);
  }
  /// dy becomes dy * ReLU'(y). @param sums [bytes()] for Add; null: no bias gradient.
  void TakeRelu(const GpuStream& stream, const void* y, void* dy, float* sums) const {
    if (nhwc()) return ReluColumnSums(stream, rows_, columns_, output_.element, y, dy, sums);
    ReluPlaneSums(stream, output_.shape, static_cast<const float*>(y), static_cast<float*>(dy), sums);
  }
  /// The rest of Sum, behind TakeRelu.
  void Add(const GpuStream& stream, const float* sums, bool add, float* to) const {
    if (nhwc()) return AddColumnSums(stream, rows_, columns_, sums, add, to);
    AddPlaneSums(stream, output_.shape, sums, add, to);
  }

 private:
  bool nhwc() const { return LiesNhwc(output_); }

  const TensorDesc output_;
  const int64_t columns_, rows_;  // of a matrix [pixels of all images, channels]
};

}  // namespace hp::cuda
