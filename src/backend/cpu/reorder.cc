// Between dense and blocked layouts a copy is a transposition of (channels, pixels) within each block: it goes in tiles
// of at most 16 channels by 64 pixels, which both sides find in the first-level cache. Between two blocked layouts runs
// of channels that are contiguous in both are copied. Tiles and runs are divided over the threads of the team.
#include "backend/cpu/reorder.h"

#include "backend/cpu/element.h"
#include "backend/cpu/parallel.h"

#include "glog/logging.h"

#include <cstring>
#include <numeric>
#include <type_traits>

namespace hp {
namespace {

constexpr int64_t kTileChannels = 16;
constexpr int64_t kTilePixels = 64;

/// Part of one channel block: up to 16 channels, all pixels.
struct Tile {
  int64_t dense = 0;    ///< offset of its first element in dense NCHW
  int64_t blocked = 0;  ///< and in the blocked layout
  int64_t channels = 0;
};

/// Calls visit(tile) for the tiles of a tensor whose channels lie in blocks of `block`.
template <typename Visit>
void ForTiles(const Shape& shape, int64_t block, const Visit& visit) {
  const int64_t channels = shape[1], pixels = shape.count(2);
  const int64_t tiles_in_block = (block + kTileChannels - 1) / kTileChannels;
  const int64_t tiles = shape[0] * (channels / block) * tiles_in_block;
  ForItems(tiles, shape.count(), [&](int64_t i) {
    const int64_t c = i % tiles_in_block * kTileChannels;
    const int64_t first = i / tiles_in_block * block * pixels;  // of the block, in either layout
    visit(Tile{first + c * pixels, first + c, std::min(kTileChannels, block - c)});
  });
}

/// blocked = dense, or += with kAdd, for one tile; in pieces that both sides find in the L1 cache.
template <bool kAdd, typename From, typename To>
void Scatter(const From* dense, To* blocked, const Tile& tile, int64_t begin, int64_t end, int64_t pixels,
             int64_t block) {
  for (int64_t s = begin; s < end; ++s) {
    for (int64_t c = 0; c < tile.channels; ++c) {
      const float value = dense[tile.dense + c * pixels + s];
      To* to = blocked + tile.blocked + s * block + c;
      *to = kAdd ? *to + value : value;
    }
  }
}

template <typename From, typename To>
void Gather(const From* blocked, To* dense, const Tile& tile, int64_t pixels, int64_t block) {
  for (int64_t begin = 0; begin < pixels; begin += kTilePixels) {
    const int64_t end = std::min(pixels, begin + kTilePixels);
    for (int64_t c = 0; c < tile.channels; ++c) {
      for (int64_t s = begin; s < end; ++s) {
        dense[tile.dense + c * pixels + s] = blocked[tile.blocked + s * block + c];
      }
    }
  }
}

template <typename From, typename To>
void CopyFlat(const From* source, To* target, int64_t count) {
  if (static_cast<const void*>(source) == target) return;
  ForChunks(count, [=](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin) * sizeof(To));
    } else {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) target[i] = static_cast<float>(source[i]);
    }
  });
}

/// Between two blocked layouts: runs of channels that are neighbours in both are copied.
template <typename From, typename To>
void CopyRuns(const TensorDesc& from, const From* source, const TensorDesc& to, To* target) {
  const int64_t run = std::gcd(from.channel_block, to.channel_block);
  const int64_t channels = from.shape[1], pixels = from.shape.count(2), runs = channels / run;
  ForItems(from.shape[0] * runs, from.count(), [&](int64_t i) {
    const int64_t n = i / runs, c = i % runs * run;
    const From* read = source + ElementOffset(from, n, c, 0);
    To* write = target + ElementOffset(to, n, c, 0);
    for (int64_t s = 0; s < pixels; ++s) {
      const From* const own = read + s * from.channel_block;
      To* const own_target = write + s * to.channel_block;
      for (int64_t i = 0; i < run; ++i) own_target[i] = static_cast<float>(own[i]);
    }
  });
}

/// @param sources dense.
template <typename From, typename To>
void BlockDense(std::span<const From* const> sources, const TensorDesc& to, To* target) {
  const int64_t block = to.channel_block, pixels = to.shape.count(2);
  ForTiles(to.shape, block, [=](const Tile& tile) {
    for (int64_t begin = 0; begin < pixels; begin += kTilePixels) {
      const int64_t end = std::min(pixels, begin + kTilePixels);
      Scatter<false>(sources[0], target, tile, begin, end, pixels, block);
      for (size_t i = 1; i < sources.size(); ++i) Scatter<true>(sources[i], target, tile, begin, end, pixels, block);
    }
  });
}

template <typename From, typename To>
void CopyElements(const TensorDesc& from, const From* source, const TensorDesc& to, To* target) {
  if (SameOrder(from, to)) return CopyFlat(source, target, from.count());
  const int64_t from_block = EffectiveBlock(from), to_block = EffectiveBlock(to);
  if (from_block == 1) return BlockDense<From, To>({&source, 1}, to, target);
  if (to_block != 1) return CopyRuns(from, source, to, target);
  const int64_t pixels = from.shape.count(2);
  ForTiles(from.shape, from_block, [=](const Tile& tile) { Gather(source, target, tile, pixels, from_block); });
}

}  // namespace

void CopyLayout(const TensorDesc& from, const void* source, const TensorDesc& to, void* target) {
  DCHECK(from.shape == to.shape) << from.shape << " is not " << to.shape;
  OfElement(from.element, [&](auto from_tag) {
    OfElement(to.element, [&](auto to_tag) {
      using From = typename decltype(from_tag)::Type;
      using To = typename decltype(to_tag)::Type;
      CopyElements(from, static_cast<const From*>(source), to, static_cast<To*>(target));
    });
  });
}

void Zero(const TensorDesc& desc, void* target) {
  std::byte* const bytes = static_cast<std::byte*>(target);
  const auto size = static_cast<int64_t>(BytesOf(desc.element));
  ForChunks(desc.count(),
            [=](int64_t begin, int64_t end) { std::memset(bytes + begin * size, 0, (end - begin) * size); });
}

template <typename T>
void SumFromDense(std::span<const T* const> sources, const TensorDesc& to, float* target) {
  if (EffectiveBlock(to) != 1) return BlockDense(sources, to, target);
  CopyFlat(sources[0], target, to.count());
  for (size_t i = 1; i < sources.size(); ++i) {
    ForChunks(to.count(), [&, i](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) target[j] += sources[i][j];
    });
  }
}
template void SumFromDense(std::span<const float* const>, const TensorDesc&, float*);
template void SumFromDense(std::span<const BFloat16* const>, const TensorDesc&, float*);

}  // namespace hp
