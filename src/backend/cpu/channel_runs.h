#pragma once

#include "backend/broadcast_rules.h"
#include "backend/cpu/parallel.h"
#include "backend/layout.h"
#include "tensor/tensor.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace hp {

/// A tensor as runs of memory in which the same few channels follow each other, pixel by pixel: the layout
/// [rows][groups][pixels][block] of TensorDesc, whatever its block is. For ops with numbers of their own for each
/// channel.
struct ChannelRuns {
  int64_t rows = 0, groups = 1, pixels = 1;
  int64_t block = 1;  ///< channels of a group

  ChannelRuns(int64_t rows, int64_t groups, int64_t pixels, int64_t block)
      : rows(rows), groups(groups), pixels(pixels), block(block) {}
  /// @param desc of rank 2 or more.
  explicit ChannelRuns(const TensorDesc& desc) : rows(desc.shape[0]) {
    const int64_t channels = desc.shape[1];
    pixels = desc.shape.count(2);
    block = pixels == 1 ? channels : EffectiveBlock(desc);
    groups = channels == 0 ? 0 : channels / block;
  }

  int64_t channels() const { return groups * block; }
  int64_t count() const { return rows * channels() * pixels; }

  int64_t Offset(int64_t row, int64_t c) const { return (row * channels() + c) * pixels; }
  /// Whether all threads have work where each takes whole groups, so that what it reads twice is in its cache the
  /// second time.
  bool groups_suffice() const {
    const int64_t threads = omp_get_max_threads();
    return groups % threads == 0 || groups >= 4 * threads;
  }

  /// Calls body(row, first channel of the group, offset of the run) for all runs, in parallel.
  template <typename Body>
  void ForEach(const Body& body) const {
    ForItems(rows * groups, count(),
             [&](int64_t run) { body(run / groups, run % groups * block, run * pixels * block); });
  }
};

/// Of a run: products[c] = the sum of weight(x) dy over the pixels, sums[c] that of dy; `sums` null: not wanted.
/// @tparam Function of broadcast_rules.h; by default the weight is x. @tparam T float or BFloat16.
template <typename Function = broadcast::Product, typename T>
void SumGradients(const T* x, const T* dy, int64_t pixels, int64_t block, float* products, float* sums,
                  const Function function = {}) {
  if (block == 1) {
    float product = 0, sum = 0;
#pragma omp simd reduction(+ : product, sum)
    for (int64_t p = 0; p < pixels; ++p) product += function.Weight(x[p]) * dy[p], sum += dy[p];
    *products = product;
    if (sums != nullptr) *sums = sum;
    return;
  }
  std::fill_n(products, block, 0.0f);
  if (sums != nullptr) std::fill_n(sums, block, 0.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    const T *own = x + p * block, *gradient = dy + p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) products[c] += function.Weight(own[c]) * gradient[c];
    if (sums == nullptr) continue;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) sums[c] += gradient[c];
  }
}

}  // namespace hp
