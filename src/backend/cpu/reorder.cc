// Between dense and blocked layouts a copy is a transposition of (channels, pixels) within each block: it goes in tiles
// of at most 16 channels by 64 pixels, which both sides find in the first-level cache. Between two blocked layouts runs
// of channels that are contiguous in both are copied. Tiles and runs are divided over the threads of the team.
#include "backend/cpu/reorder.h"

#include "backend/cpu/parallel.h"

#include "glog/logging.h"

#include <cstring>
#include <numeric>

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
template <bool kAdd>
void Scatter(const float* dense, float* blocked, const Tile& tile, int64_t begin, int64_t end, int64_t pixels,
             int64_t block) {
  for (int64_t s = begin; s < end; ++s) {
    for (int64_t c = 0; c < tile.channels; ++c) {
      const float value = dense[tile.dense + c * pixels + s];
      float* to = blocked + tile.blocked + s * block + c;
      *to = kAdd ? *to + value : value;
    }
  }
}

void Gather(const float* blocked, float* dense, const Tile& tile, int64_t pixels, int64_t block) {
  for (int64_t begin = 0; begin < pixels; begin += kTilePixels) {
    const int64_t end = std::min(pixels, begin + kTilePixels);
    for (int64_t c = 0; c < tile.channels; ++c) {
      for (int64_t s = begin; s < end; ++s) {
        dense[tile.dense + c * pixels + s] = blocked[tile.blocked + s * block + c];
      }
    }
  }
}

void CopyFlat(const float* source, float* target, int64_t count) {
  if (source == target) return;
  ForChunks(count, [=](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

/// Between two blocked layouts: runs of channels that are neighbours in both are copied.
void CopyRuns(const TensorDesc& from, const float* source, const TensorDesc& to, float* target) {
  const int64_t run = std::gcd(from.channel_block, to.channel_block);
  const int64_t channels = from.shape[1], pixels = from.shape.count(2), runs = channels / run;
  ForItems(from.shape[0] * runs, from.count(), [&](int64_t i) {
    const int64_t n = i / runs, c = i % runs * run;
    const float* read = source + ElementOffset(from, n, c, 0);
    float* write = target + ElementOffset(to, n, c, 0);
    for (int64_t s = 0; s < pixels; ++s) {
      std::copy_n(read + s * from.channel_block, run, write + s * to.channel_block);
    }
  });
}

}  // namespace

void CopyLayout(const TensorDesc& from, const float* source, const TensorDesc& to, float* target) {
  DCHECK(from.shape == to.shape) << from.shape << " is not " << to.shape;
  if (SameOrder(from, to)) return CopyFlat(source, target, from.count());
  const int64_t from_block = EffectiveBlock(from), to_block = EffectiveBlock(to);
  if (from_block == 1) return SumFromDense({&source, 1}, to, target);
  if (to_block != 1) return CopyRuns(from, source, to, target);
  const int64_t pixels = from.shape.count(2);
  ForTiles(from.shape, from_block, [=](const Tile& tile) { Gather(source, target, tile, pixels, from_block); });
}

void SumFromDense(std::span<const float* const> sources, const TensorDesc& to, float* target) {
  const int64_t block = EffectiveBlock(to);
  if (block == 1) {
    CopyFlat(sources[0], target, to.count());
    for (size_t i = 1; i < sources.size(); ++i) {
      ForChunks(to.count(), [&, i](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) target[j] += sources[i][j];
      });
    }
    return;
  }
  const int64_t pixels = to.shape.count(2);
  ForTiles(to.shape, block, [=](const Tile& tile) {
    for (int64_t begin = 0; begin < pixels; begin += kTilePixels) {
      const int64_t end = std::min(pixels, begin + kTilePixels);
      Scatter<false>(sources[0], target, tile, begin, end, pixels, block);
      for (size_t i = 1; i < sources.size(); ++i) Scatter<true>(sources[i], target, tile, begin, end, pixels, block);
    }
  });
}

}  // namespace hp
