#include "backend/cuda/divisor.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/pack.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/tiles.h"
#include "backend/layout.h"

#include <algorithm>

namespace hp::cuda {
namespace {

constexpr int kSources = 16;  // of one kernel; more are added by further ones

/// Tensors that are added in order, after what is in the target already if `add`.
struct Sources {
  const float* of[kSources] = {};
  int count = 0;
  bool add = false;

  template <int W>
  HP_HOST_DEVICE Pack<float, W> Sum(int64_t i, const float* target) const {
    Pack<float, W> sum = LoadPack<W>(add ? target : of[0] + i);
    for (int k = add ? 0 : 1; k < count; ++k) {
      const Pack<float, W> term = LoadPack<W>(of[k] + i);
      for (int w = 0; w < W; ++w) sum.of[w] += term.of[w];
    }
    return sum;
  }
  bool packable() const {
    return std::all_of(of, of + count, [](const float* source) { return Packable({source}); });
  }
};

/// Calls visit(Sources) for at most kSources of them at a time, in order.
template <typename Visit>
void ForSources(std::span<const float* const> all, const Visit& visit) {
  for (size_t begin = 0; begin < all.size(); begin += kSources) {
    Sources sources;
    sources.add = begin > 0;
    sources.count = static_cast<int>(std::min<size_t>(kSources, all.size() - begin));
    std::copy_n(all.data() + begin, sources.count, sources.of);
    visit(sources);
  }
}

struct Flat {
  Sources from;
  float* to;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    StorePack(to + i, from.Sum<W>(i, to + i));
  }
};

struct Zero {
  float* to;
  HP_HOST_DEVICE void operator()(int64_t i) const { to[i] = 0; }
};

/// [images][rows][columns] becomes [images][columns][rows], in squares of 32: a warp reads 128 bytes of a row and
/// writes 128 bytes of a column. The square's 33rd column keeps the threads of a warp in different banks.
struct Transpose {
  static constexpr int kSide = 32, kLines = kBlockThreads / kSide;
  static constexpr int kFloats = kSide * (kSide + 1);

  Sources from;
  float* to;
  int64_t rows, columns;
  Divisor down, across;  ///< squares of an image

  struct Square {
    int64_t image;  ///< its offset
    int64_t row, column;
  };
  HP_HOST_DEVICE Square At(int64_t tile) const {
    uint32_t column, row;
    const uint32_t line = across.Quotient(static_cast<uint32_t>(tile), &column);
    const uint32_t image = down.Quotient(line, &row);
    return {image * rows * columns, int64_t{row} * kSide, int64_t{column} * kSide};
  }

  HP_HOST_DEVICE void Fill(int64_t tile, int thread, float* shared) const {
    const Square square = At(tile);
    const int64_t column = square.column + thread % kSide;
    if (column >= columns) return;
    for (int line = thread / kSide; line < kSide; line += kLines) {
      const int64_t row = square.row + line;
      if (row >= rows) return;
      const float* target = to + square.image + column * rows + row;
      shared[line * (kSide + 1) + thread % kSide] = from.Sum<1>(square.image + row * columns + column, target).of[0];
    }
  }
  HP_HOST_DEVICE void Use(int64_t tile, int thread, const float* shared) const {
    const Square square = At(tile);
    const int64_t row = square.row + thread % kSide;
    if (row >= rows) return;
    for (int line = thread / kSide; line < kSide; line += kLines) {
      const int64_t column = square.column + line;
      if (column >= columns) return;
      to[square.image + column * rows + row] = shared[thread % kSide * (kSide + 1) + line];
    }
  }
};

/// The same where squares would be mostly empty: writes are in order, reads come from a few rows or a few columns.
struct ThinTranspose {
  Sources from;
  float* to;
  Divisor rows;
  uint32_t columns;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    uint32_t row;
    const uint32_t column = rows.Quotient(i, &row);
    const int64_t first = image * rows.value() * columns;
    to[first + i] = from.Sum<1>(first + int64_t{row} * columns + column, to + first + i).of[0];
  }
};

void RunTranspose(const GpuStream& stream, int64_t images, int64_t rows, int64_t columns, const Sources& from,
                  float* to) {
  constexpr int64_t kThin = 8;
  if (std::min(rows, columns) < kThin) {
    ForEachInRows(stream, images, rows * columns,
                  ThinTranspose{from, to, Divisor(rows), static_cast<uint32_t>(columns)});
    return;
  }
  const int64_t down = (rows + Transpose::kSide - 1) / Transpose::kSide;
  const int64_t across = (columns + Transpose::kSide - 1) / Transpose::kSide;
  CHECK_LT(images * down * across, int64_t{1} << 31);
  ForTiles(stream, images * down * across, Transpose{from, to, rows, columns, Divisor(down), Divisor(across)});
}

void ExpectGpuLayout(const TensorDesc& desc) {
  CHECK(EffectiveBlock(desc) == 1 || desc.channel_block == desc.shape[1])
      << "[" << desc.shape << "] in blocks of " << desc.channel_block << " on a GPU";
}

}  // namespace

void CopyFlat(const GpuStream& stream, int64_t count, const float* from, float* to) {
  if (from != to) SumFlat(stream, count, {&from, 1}, to);
}

void SumFlat(const GpuStream& stream, int64_t count, std::span<const float* const> sources, float* to) {
  if (sources.empty()) return ForEach(stream, count, Zero{to});
  ForSources(sources, [&](const Sources& from) {
    ForEachPack(stream, count, Packable({to}) && from.packable(), Flat{from, to});
  });
}

void SumFromDense(const GpuStream& stream, std::span<const float* const> sources, const TensorDesc& to_desc,
                  float* to) {
  ExpectGpuLayout(to_desc);
  if (EffectiveBlock(to_desc) == 1 || sources.empty()) return SumFlat(stream, to_desc.count(), sources, to);
  ForSources(sources, [&](const Sources& from) {
    RunTranspose(stream, to_desc.shape[0], to_desc.shape[1], to_desc.shape.count(2), from, to);
  });
}

void CopyLayout(const GpuStream& stream, const TensorDesc& from_desc, const float* from, const TensorDesc& to_desc,
                float* to) {
  ExpectGpuLayout(from_desc);
  if (SameOrder(from_desc, to_desc)) return CopyFlat(stream, from_desc.count(), from, to);
  CHECK(from_desc.shape == to_desc.shape) << "[" << from_desc.shape << "] is not [" << to_desc.shape << "]";
  if (EffectiveBlock(from_desc) == 1) return SumFromDense(stream, {&from, 1}, to_desc, to);
  Sources source;
  source.of[0] = from, source.count = 1;
  RunTranspose(stream, to_desc.shape[0], to_desc.shape.count(2), to_desc.shape[1], source, to);
}

}  // namespace hp::cuda
