// In tiles of 16 outputs and some blocks of 16 inputs, as most formats have them, so that both sides of a tile lie in
// the first-level cache.
#include "backend/cpu/weights_reorder.h"

#include "backend/cpu/element.h"
#include "backend/cpu/transpose.h"
#include "backend/cpu/vec.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace hp::onednn {
namespace {

constexpr int64_t kTile = 16;          // outputs, and a multiple of it inputs
constexpr int64_t kTileRest = 256;     // of each output at least: 16 KiB of float32 in all
constexpr int64_t kMostPaired = 1024;  // of each output, of which a tile of pairs has a copy: windows of 8 x 8

/// The offset that each index along `axis` adds.
std::vector<int32_t> OffsetsAlong(const dnnl_memory_desc_t& desc, int axis) {
  const dnnl_blocking_desc_t& blocking = desc.format_desc.blocking;
  std::vector<int32_t> offsets(desc.dims[axis]);
  for (int64_t i = 0; i < desc.dims[axis]; ++i) {
    int64_t rest = i, offset = 0, stride = 1;
    for (int block = blocking.inner_nblks - 1; block >= 0; --block) {
      const int64_t size = blocking.inner_blks[block];
      if (blocking.inner_idxs[block] == axis) {
        offset += rest % size * stride;
        rest /= size;
      }
      stride *= size;
    }
    offsets[i] = static_cast<int32_t>(offset + rest * blocking.strides[axis]);
  }
  return offsets;
}

template <typename T>
void CopyRest(const float* source, const int32_t* from, int64_t count, bool add, T* target, const int32_t* to) {
  if (add) {
    for (int64_t i = 0; i < count; ++i) target[to[i]] = target[to[i]] + source[from[i]];
  } else {
    for (int64_t i = 0; i < count; ++i) target[to[i]] = source[from[i]];
  }
}

/// Rounds `count` floats to bfloat16, each in the lower half of a word.
void RoundToWords(const float* from, int64_t count, uint32_t* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = ToBFloat16(from[i]);
}

/// kTile pairs, the words of a pair's halves `stride` apart. A loop of its own where they are neighbours: else it
/// gathers.
void StorePairs(const uint32_t* first, const uint32_t* second, int64_t stride, BFloat16* to) {
  uint32_t pairs[kTile];
  if (stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < kTile; ++i) pairs[i] = first[i] | second[i] << 16;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < kTile; ++i) pairs[i] = first[i * stride] | second[i * stride] << 16;
  }
  std::memcpy(to, pairs, sizeof(pairs));
}

void StoreVector(FloatVec<kMostLanes> value, bool add, float* to) {
  Store<kMostLanes>(to, add ? Load<kMostLanes>(to) + value : value);
}

/// One output's inputs and windows to vectors of inputs, for a window of kWindow elements, or of `window` where that is
/// 0.
template <int kWindow>
void PackInputsOf(const float* from, int64_t count, int64_t window, bool add, float* to, const int32_t* to_rest) {
  constexpr int W = kMostLanes;
  const int64_t step = kWindow > 0 ? kWindow : window;
  for (int64_t r = 0; r < count; r += W * step) {
    for (int64_t w = r; w < r + step; ++w) {
      FloatVec<W> inputs;
      for (int i = 0; i < W; ++i) inputs[i] = from[w + i * step];
      StoreVector(inputs, add, to + to_rest[w]);
    }
  }
}
void PackInputs(const float* from, int64_t count, int64_t window, bool add, float* to, const int32_t* to_rest) {
  if (window == 1) return PackInputsOf<1>(from, count, window, add, to, to_rest);
  if (window == 9) return PackInputsOf<9>(from, count, window, add, to, to_rest);
  PackInputsOf<0>(from, count, window, add, to, to_rest);
}

/// Whether within blocks of `block` indices an element is `offset` behind the one `step` indices before it.
bool AllAre(int32_t offset, const std::vector<int32_t>& offsets, int64_t step, int64_t block) {
  for (int64_t i = 0; i + step < std::ssize(offsets); ++i) {
    if (i % block + step < block && offsets[i + step] != offsets[i] + offset) return false;
  }
  return true;
}

}  // namespace

std::optional<WeightsReorder::Offsets> WeightsReorder::OffsetsOf(const dnnl::memory::desc& of) {
  const dnnl_memory_desc_t& desc = of.data;
  const bool blocked = desc.format_kind == dnnl_blocked && desc.extra.flags == 0 && desc.offset0 == 0;
  const bool padded = !std::equal(desc.dims, desc.dims + desc.ndims, desc.padded_dims);
  if (!blocked || padded || of.get_size() > std::numeric_limits<int32_t>::max()) return std::nullopt;
  const int first = desc.ndims - 4;  // 1 where there are groups
  const std::vector<int32_t> inputs = OffsetsAlong(desc, first + 1), rows = OffsetsAlong(desc, first + 2),
                             columns = OffsetsAlong(desc, first + 3);
  Offsets offsets;
  offsets.of_group = first == 0 ? std::vector<int32_t>{0} : OffsetsAlong(desc, 0);
  offsets.of_output = OffsetsAlong(desc, first);
  for (const int32_t input : inputs) {
    for (const int32_t row : rows) {
      for (const int32_t column : columns) offsets.of_rest.push_back(input + row + column);
    }
  }
  return offsets;
}

WeightsReorder::WeightsReorder(const Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                               bool can_add)
    : needed_(from != to), from_(OffsetsOf(from)), to_(OffsetsOf(to)) {
  if (!from_ || !to_) {
    from_.reset();
    copy_ = Reorder(context, from, to);
    if (can_add) add_ = Reorder(context, from, to, true);
    return;
  }
  const auto dims = to.dims();
  window_ = dims[dims.size() - 2] * dims[dims.size() - 1];
  const int64_t block = kTile * window_;
  rest_step_ = (kTileRest + block - 1) / block * block;
  if (to.data_type() == dnnl::memory::data_type::bf16) {
    element_ = ElementType::kBFloat16;
    pairs_ = FindPairs();
  } else {
    squares_ = FindSquares();
  }
}

WeightsReorder::Pairs WeightsReorder::FindPairs() const {
  const std::vector<int32_t>&outputs = to_->of_output, &rest = to_->of_rest, &source = from_->of_rest;
  const auto outputs_count = std::ssize(outputs), rest_count = std::ssize(rest);
  if (outputs_count % kTile != 0 || rest_count % (kTile * window_) != 0 || rest_step_ > kMostPaired)
    return Pairs::kNone;
  if (!AllAre(1, source, 1, rest_count)) return Pairs::kNone;
  if (AllAre(1, rest, window_, 2 * window_) && AllAre(2, outputs, 1, kTile)) return Pairs::kInputs;
  if (AllAre(1, outputs, 1, 2) && AllAre(2, rest, window_, kTile * window_)) return Pairs::kOutputs;
  return Pairs::kNone;
}

WeightsReorder::Squares WeightsReorder::FindSquares() const {
  const auto outputs_count = std::ssize(from_->of_output), rest_count = std::ssize(from_->of_rest);
  if (outputs_count % kTile != 0) return Squares::kNone;
  const auto dense = [&](const Offsets& of) { return AllAre(1, of.of_rest, 1, rest_count); };
  const auto outputs_aside = [&](const Offsets& of) { return AllAre(1, of.of_output, 1, kMostLanes); };
  if (dense(*from_) && outputs_aside(*to_)) return Squares::kPackOutputs;
  if (outputs_aside(*from_) && dense(*to_)) return Squares::kUnpackOutputs;
  const int64_t block = kMostLanes * window_;
  if (rest_count % block == 0 && dense(*from_) && AllAre(1, to_->of_rest, window_, block)) return Squares::kPackInputs;
  return Squares::kNone;
}

void WeightsReorder::Run(Context* context, const void* from, void* to, bool add) const {
  if (by_onednn()) return (add ? add_ : copy_).Run(context, from, to);
  if (by_pairs() && !add) {
    const auto* const source = static_cast<const float*>(from);
    auto* const target = static_cast<BFloat16*>(to);
    return pairs_ == Pairs::kInputs ? RunPairs<Pairs::kInputs>(source, target)
                                    : RunPairs<Pairs::kOutputs>(source, target);
  }
  if (by_squares()) {
    const auto* const source = static_cast<const float*>(from);
    auto* const target = static_cast<float*>(to);
    if (squares_ == Squares::kPackOutputs) return RunSquares<Squares::kPackOutputs>(source, target, add);
    if (squares_ == Squares::kUnpackOutputs) return RunSquares<Squares::kUnpackOutputs>(source, target, add);
    return RunSquares<Squares::kPackInputs>(source, target, add);
  }
  OfElement(element_, [&](auto tag) {
    RunTyped(static_cast<const float*>(from), static_cast<typename decltype(tag)::Type*>(to), add);
  });
}

template <typename Body>
void WeightsReorder::ForEachTile(const Body& body) const {
  const auto groups = std::ssize(from_->of_group), outputs = std::ssize(from_->of_output),
             rest = std::ssize(from_->of_rest);
  const int64_t output_tiles = (outputs + kTile - 1) / kTile, rest_tiles = (rest + rest_step_ - 1) / rest_step_;
#pragma omp parallel for collapse(2) schedule(static) if (groups * outputs * rest > kSerialElements)
  for (int64_t row = 0; row < groups * output_tiles; ++row) {
    for (int64_t tile = 0; tile < rest_tiles; ++tile) {
      const int64_t begin = tile * rest_step_;
      body(row / output_tiles, row % output_tiles * kTile, begin, std::min(rest - begin, rest_step_));
    }
  }
}

// Rounded once, row by row, into a copy of the tile: its rows are further apart than a power of two, at which those of
// many weights evict each other.
template <WeightsReorder::Pairs kPairs>
void WeightsReorder::RunPairs(const float* from, BFloat16* to) const {
  constexpr int64_t kStride = kMostPaired + kTile;
  const Offsets &of_from = *from_, &of_to = *to_;
  ForEachTile([&](int64_t group, int64_t first, int64_t begin, int64_t count) {
    alignas(64) uint32_t words[kTile * kStride];
    for (int64_t output = 0; output < kTile; ++output) {
      RoundToWords(from + of_from.of_group[group] + of_from.of_output[first + output] + of_from.of_rest[begin], count,
                   words + output * kStride);
    }
    BFloat16* const target = to + of_to.of_group[group];
    const int32_t *const to_output = of_to.of_output.data() + first, *const to_rest = of_to.of_rest.data() + begin;
    if constexpr (kPairs == Pairs::kInputs) {
      for (int64_t r = 0; r < count; r += 2 * window_) {
        for (int64_t w = r; w < r + window_; ++w) {
          StorePairs(words + w, words + w + window_, kStride, target + to_output[0] + to_rest[w]);
        }
      }
    } else {
      for (int64_t output = 0; output < kTile; output += 2) {
        const uint32_t* const line = words + output * kStride;
        for (int64_t r = 0; r < count; r += kTile * window_) {
          for (int64_t w = r; w < r + window_; ++w) {
            StorePairs(line + w, line + kStride + w, window_, target + to_output[output] + to_rest[w]);
          }
        }
      }
    }
  });
}

// Squares of outputs and rest are transposed; of inputs, whose vectors lie a window apart, each is gathered.
template <WeightsReorder::Squares kSquares>
void WeightsReorder::RunSquares(const float* from, float* to, bool add) const {
  constexpr int W = kMostLanes;
  const Offsets &of_from = *from_, &of_to = *to_;
  ForEachTile([&](int64_t group, int64_t first, int64_t begin, int64_t count) {
    const float* const source = from + of_from.of_group[group];
    float* const target = to + of_to.of_group[group];
    const int32_t *const from_output = of_from.of_output.data() + first, *const to_output =
                                                                             of_to.of_output.data() + first;
    const int32_t *const from_rest = of_from.of_rest.data() + begin, *const to_rest = of_to.of_rest.data() + begin;
    if constexpr (kSquares == Squares::kPackInputs) {
      for (int64_t output = 0; output < kTile; ++output) {
        PackInputs(source + from_output[output] + from_rest[0], count, window_, add, target + to_output[output],
                   to_rest);
      }
      return;
    }
    constexpr bool kFromRows = kSquares == Squares::kPackOutputs;
    const int64_t whole = count / W * W;
    for (int64_t output = 0; output < kTile; output += W) {
      for (int64_t r = 0; r < whole; r += W) {
        FloatVec<W> square[W];
        for (int i = 0; i < W; ++i) {
          square[i] = Load<W>(
              source + (kFromRows ? from_output[output + i] + from_rest[r] : from_output[output] + from_rest[r + i]));
        }
        Transpose<W>(square);
        for (int i = 0; i < W; ++i) {
          StoreVector(square[i], add,
                      target + (kFromRows ? to_output[output] + to_rest[r + i] : to_output[output + i] + to_rest[r]));
        }
      }
    }
    for (int64_t output = 0; whole < count && output < kTile; ++output) {
      CopyRest(source + from_output[output], from_rest + whole, count - whole, add, target + to_output[output],
               to_rest + whole);
    }
  });
}

template <typename T>
void WeightsReorder::RunTyped(const float* from, T* to, bool add) const {
  const Offsets &of_from = *from_, &of_to = *to_;
  const auto outputs = std::ssize(of_from.of_output);
  ForEachTile([&](int64_t group, int64_t first, int64_t begin, int64_t count) {
    const int32_t *const from_rest = of_from.of_rest.data() + begin, *const to_rest = of_to.of_rest.data() + begin;
    for (int64_t output = first; output < std::min(outputs, first + kTile); ++output) {
      const float* const source = from + of_from.of_group[group] + of_from.of_output[output];
      T* const target = to + of_to.of_group[group] + of_to.of_output[output];
      CopyRest(source, from_rest, count, add, target, to_rest);
    }
  });
}

}  // namespace hp::onednn
