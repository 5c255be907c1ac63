#pragma once

#include "backend/cpu/vec.h"

#include <cstddef>
#include <utility>

namespace hp {

/// Exchanges the blocks beside the diagonal of each square of 2 * Distance vectors and lanes.
template <int Distance, int W, size_t... Lane>
inline void SwapAcross(FloatVec<W>* v, std::index_sequence<Lane...>) {
  for (int i = 0; i < W; ++i) {
    if (i & Distance) continue;
    const FloatVec<W> a = v[i], b = v[i + Distance];
    v[i] = __builtin_shufflevector(a, b, (Lane & Distance ? W + Lane - Distance : Lane)...);
    v[i + Distance] = __builtin_shufflevector(a, b, (Lane & Distance ? W + Lane : Lane + Distance)...);
  }
}

/// The columns of a square of W vectors as vectors; all in registers where those are W wide.
template <int W>
inline void Transpose(FloatVec<W>* v) {
  using Lanes = std::make_index_sequence<W>;
  if constexpr (W >= 16) SwapAcross<8, W>(v, Lanes());
  if constexpr (W >= 8) SwapAcross<4, W>(v, Lanes());
  SwapAcross<2, W>(v, Lanes());
  SwapAcross<1, W>(v, Lanes());
}

}  // namespace hp
