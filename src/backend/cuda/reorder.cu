#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/tiles.h"
#include "backend/layout.h"

#include <algorithm>

namespace hp::cuda {
namespace {

constexpr int kSources = 16;  // of one kernel; more are added by further ones

/// Tensors that are added in order, after what is in the target already if `add`.
template <typename From>
struct Sources {
  const From* of[kSources] = {};
  int count = 0;
  bool add = false;

  template <int W, typename To>
  HP_HOST_DEVICE Pack<float, W> Sum(int64_t i, const To* target) const {
    Pack<float, W> sum = add ? ReadPack<W>(target) : ReadPack<W>(of[0] + i);
    for (int k = add ? 0 : 1; k < count; ++k) {
      const Pack<float, W> term = ReadPack<W>(of[k] + i);
      for (int w = 0; w < W; ++w) sum.of[w] += term.of[w];
    }
    return sum;
  }
  bool packable() const {
    return std::all_of(of, of + count, [](const From* source) { return Packable({source}); });
  }
};

/// Calls visit(Sources) for at most kSources of them at a time, in order.
template <typename From, typename Visit>
void ForSources(std::span<const void* const> all, const Visit& visit) {
  for (size_t begin = 0; begin < all.size(); begin += kSources) {
    Sources<From> sources;
    sources.add = begin > 0;
    sources.count = static_cast<int>(std::min<size_t>(kSources, all.size() - begin));
    for (int i = 0; i < sources.count; ++i) sources.of[i] = static_cast<const From*>(all[begin + i]);
    visit(sources);
  }
}

template <typename From, typename To>
struct Flat {
  Sources<From> from;
  To* to;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    WritePack(to + i, from.template Sum<W>(i, to + i));
  }
};

template <typename To>
struct ZeroElement {
  To* to;
  HP_HOST_DEVICE void operator()(int64_t i) const { Put(0, to + i); }
};

/// [images][rows][columns] becomes [images][columns][rows], in squares of 32: a warp reads 32 neighbours of a row and
/// writes 32 of a column. The square's 33rd column keeps the threads of a warp in different banks.
template <typename From, typename To>
struct Transpose {
  static constexpr int kSide = 32, kLines = kBlockThreads / kSide;
  static constexpr int kFloats = kSide * (kSide + 1);

  Sources<From> from;
  To* to;
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
      const To* target = to + square.image + column * rows + row;
      const int64_t at = square.image + row * columns + column;
      shared[line * (kSide + 1) + thread % kSide] = from.template Sum<1>(at, target).of[0];
    }
  }
  HP_HOST_DEVICE void Use(int64_t tile, int thread, const float* shared) const {
    const Square square = At(tile);
    const int64_t row = square.row + thread % kSide;
    if (row >= rows) return;
    for (int line = thread / kSide; line < kSide; line += kLines) {
      const int64_t column = square.column + line;
      if (column >= columns) return;
      Put(shared[thread % kSide * (kSide + 1) + line], to + square.image + column * rows + row);
    }
  }
};

/// The same where squares would be mostly empty: writes are in order, reads come from a few rows or a few columns.
template <typename From, typename To>
struct ThinTranspose {
  Sources<From> from;
  To* to;
  Divisor rows;
  uint32_t columns;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    uint32_t row;
    const uint32_t column = rows.Quotient(i, &row);
    const int64_t first = image * rows.value() * columns, at = first + int64_t{row} * columns + column;
    Put(from.template Sum<1>(at, to + first + i).of[0], to + first + i);
  }
};

template <typename From, typename To>
void RunTranspose(const GpuStream& stream, int64_t images, int64_t rows, int64_t columns, const Sources<From>& from,
                  To* to) {
  using Squares = Transpose<From, To>;
  constexpr int64_t kThin = 8;
  if (std::min(rows, columns) < kThin) {
    ForEachInRows(stream, images, rows * columns,
                  ThinTranspose<From, To>{from, to, Divisor(rows), static_cast<uint32_t>(columns)});
    return;
  }
  const int64_t down = (rows + Squares::kSide - 1) / Squares::kSide;
  const int64_t across = (columns + Squares::kSide - 1) / Squares::kSide;
  CHECK_LT(images * down * across, int64_t{1} << 31);
  ForTiles(stream, images * down * across, Squares{from, to, rows, columns, Divisor(down), Divisor(across)});
}

void ExpectGpuLayout(const TensorDesc& desc) {
  CHECK(EffectiveBlock(desc) == 1 || desc.channel_block == desc.shape[1])
      << "[" << desc.shape << "] in blocks of " << desc.channel_block << " on a GPU";
}

/// The sum of sources whose elements lie in the target's order.
template <typename From, typename To>
void SumFlat(const GpuStream& stream, int64_t count, std::span<const void* const> sources, To* to) {
  if (sources.empty()) return ForEach(stream, count, ZeroElement<To>{to});
  ForSources<From>(sources, [&](const Sources<From>& from) {
    constexpr int kWidth = std::min(kPackWidth<From>, kPackWidth<To>);
    ForEachPack<kWidth>(stream, count, Packable({to}) && from.packable(), Flat<From, To>{from, to});
  });
}

/// The sum of sources that all are as `from_desc` says.
template <typename From, typename To>
void SumLayout(const GpuStream& stream, const TensorDesc& from_desc, std::span<const void* const> sources,
               const TensorDesc& to_desc, To* to) {
  ExpectGpuLayout(from_desc), ExpectGpuLayout(to_desc);
  if (SameOrder(from_desc, to_desc) || sources.empty()) return SumFlat<From>(stream, to_desc.count(), sources, to);
  const Shape& shape = to_desc.shape;
  CHECK(from_desc.shape == shape) << "[" << from_desc.shape << "] is not [" << shape << "]";
  const int64_t channels = shape[1], pixels = shape.count(2);
  const bool dense = EffectiveBlock(from_desc) == 1;
  ForSources<From>(sources, [&](const Sources<From>& from) {
    RunTranspose(stream, shape[0], dense ? channels : pixels, dense ? pixels : channels, from, to);
  });
}

/// Of all pairs of types those that there are: float32 and one type of 16 bits.
void SumAny(const GpuStream& stream, const TensorDesc& from_desc, std::span<const void* const> sources,
            const TensorDesc& to_desc, void* to) {
  if (from_desc.element == to_desc.element) {
    return WithElementType(to_desc.element, [&](auto type) {
      using T = typename decltype(type)::Type;
      SumLayout<T>(stream, from_desc, sources, to_desc, static_cast<T*>(to));
    });
  }
  if (to_desc.element == ElementType::kFloat32) {
    return WithElementType(from_desc.element, [&](auto type) {
      SumLayout<typename decltype(type)::Type>(stream, from_desc, sources, to_desc, static_cast<float*>(to));
    });
  }
  CHECK(from_desc.element == ElementType::kFloat32) << "FP16 and BF16 in one net";
  WithElementType(to_desc.element, [&](auto type) {
    SumLayout<float>(stream, from_desc, sources, to_desc, static_cast<typename decltype(type)::Type*>(to));
  });
}

}  // namespace

void Sum(const GpuStream& stream, const TensorDesc& desc, std::span<const void* const> sources, void* to) {
  SumAny(stream, desc, sources, desc, to);
}

void SumFromDense(const GpuStream& stream, std::span<const void* const> sources, const TensorDesc& to_desc, void* to) {
  SumAny(stream, {to_desc.shape, 1}, sources, to_desc, to);
}

void CopyLayout(const GpuStream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc,
                void* to) {
  if (from == to && SameOrder(from_desc, to_desc) && from_desc.element == to_desc.element) return;
  SumAny(stream, from_desc, {&from, 1}, to_desc, to);
}

}  // namespace hp::cuda
