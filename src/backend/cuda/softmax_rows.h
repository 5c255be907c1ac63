#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/long_rows.h"
#include "backend/layout.h"

#include <cmath>
#include <cstdint>

// Softmax as a reduction of rows (launch.h). Only for .cu files.
namespace hp::cuda {

/// Maps rows of a reduction to the middle dimension of a tensor [outer, classes, inner]: outer * inner rows of
/// `classes` elements, `inner` apart. (row, i) to the element's offset.
struct SoftmaxColumns {
  int64_t classes, inner;
  HP_HOST_DEVICE int64_t operator()(int64_t row, int64_t i) const {
    return inner == 1 ? row * classes + i : (row / inner * classes + i) * inner + row % inner;
  }
  /// The row of the element at an offset.
  HP_HOST_DEVICE int64_t RowOf(int64_t offset) const {
    return inner == 1 ? offset / classes : offset / inner / classes * inner + offset % inner;
  }
  /// Its class.
  HP_HOST_DEVICE int64_t ClassOf(int64_t offset) const { return offset / inner % classes; }
};

/// The classes of `in` in its own layout, which is dense where they do not lie along axis 1: a row for each label, in
/// their order (ClassAxis).
inline SoftmaxColumns ClassColumns(const TensorDesc& in, int axis) {
  return {in.shape[axis], EffectiveBlock(in) == 1 ? in.shape.count(axis + 1) : 1};  // else [N, H, W, C] in memory
}

/// What is known of some of a row's logits, as a reduction combines it. The largest x is subtracted before the
/// exponentials: the sums of two parts are brought to the larger one's scale when they are added. A NaN or an infinity
/// makes the row NaN.
struct SoftmaxSums {
  struct Value {
    float largest;
    double sum;
  };

  HP_HOST_DEVICE static Value Identity() { return {-INFINITY, 0}; }
  HP_HOST_DEVICE static Value Combine(const Value& a, const Value& b) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.sum * Scale(a.largest, largest) + b.sum * Scale(b.largest, largest)};
  }
  HP_HOST_DEVICE static float Probability(float x, const Value& value) {
    return expf(x - value.largest) * static_cast<float>(1 / value.sum);
  }

 private:
  /// exp(largest - new_largest); a NaN stays, and infinity less infinity is one.
  HP_HOST_DEVICE static float Scale(float largest, float new_largest) {
    return largest == new_largest && largest < INFINITY ? 1 : expf(largest - new_largest);
  }
};

/// Logits that stand in memory as they are.
struct PlainLogits {
  const float* x;
  HP_HOST_DEVICE float operator()(int64_t, int64_t, int64_t offset) const { return x[offset]; }
};

/// y = exp(x) / sum of exp(x). Reads x twice, the second time from the cache unless rows are long, and writes y; x and
/// y may be the same memory. @tparam Logits yields x by (row, i, the element's offset).
template <typename Logits>
struct SoftmaxOf : SoftmaxSums {
  Logits x;
  float* y;
  SoftmaxColumns at;

  HP_HOST_DEVICE float Logit(int64_t row, int64_t i) const { return x(row, i, at(row, i)); }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return {Logit(row, i), 1}; }
  HP_HOST_DEVICE void Finish(int64_t, const Value&) const {}
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value& value) const {
    y[at(row, i)] = Probability(Logit(row, i), value);
  }
};
using SoftmaxForward = SoftmaxOf<PlainLogits>;

/// Bytes of scratch that ReduceSoftmaxRows needs.
inline size_t SoftmaxRowsScratch(int64_t rows, const SoftmaxColumns& at) {
  return at.inner > 1 ? 0 : RowPieces(rows, at.classes).scratch_bytes();
}

/// Runs `reduction` over `rows` rows of at.classes elements: with blocks of threads for each row if it is long, else,
/// and where a row's elements are not consecutive, with a thread for each row, so that neighbouring threads read
/// neighbouring addresses. @param scratch [SoftmaxRowsScratch], aligned to 16 bytes.
template <typename Reduction>
void ReduceSoftmaxRows(const GpuStream& stream, int64_t rows, const Reduction& reduction, const SoftmaxColumns& at,
                       std::byte* scratch) {
  constexpr int64_t kShort = 32;
  if (at.inner > 1 || at.classes <= kShort) return ReduceShortRows(stream, rows, at.classes, reduction);
  ReduceLongRows(stream, RowPieces(rows, at.classes), reduction, scratch);
}

}  // namespace hp::cuda
