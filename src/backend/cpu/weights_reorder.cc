// In tiles of 16 outputs and some blocks of 16 inputs, as most formats have them, so that both sides of a tile lie in
// the first-level cache.
#include "backend/cpu/weights_reorder.h"

#include "backend/cpu/element.h"
#include "backend/cpu/vec.h"

#include <algorithm>
#include <limits>

namespace hp::onednn {
namespace {

constexpr int64_t kTile = 16;       // outputs, and a multiple of it inputs
constexpr int64_t kTileRest = 256;  // of each output at least: 16 KiB of float32 in all

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
  const int64_t block = kTile * dims[dims.size() - 2] * dims[dims.size() - 1];
  rest_step_ = (kTileRest + block - 1) / block * block;
  if (to.data_type() == dnnl::memory::data_type::bf16) element_ = ElementType::kBFloat16;
}

void WeightsReorder::Run(Context* context, const void* from, void* to, bool add) const {
  if (by_onednn()) return (add ? add_ : copy_).Run(context, from, to);
  OfElement(element_, [&](auto tag) {
    RunTyped(static_cast<const float*>(from), static_cast<typename decltype(tag)::Type*>(to), add);
  });
}

template <typename T>
void WeightsReorder::RunTyped(const float* from, T* to, bool add) const {
  const Offsets &of_from = *from_, &of_to = *to_;
  const auto groups = std::ssize(of_from.of_group), outputs = std::ssize(of_from.of_output),
             rest = std::ssize(of_from.of_rest);
  const int64_t output_tiles = (outputs + kTile - 1) / kTile, rest_tiles = (rest + rest_step_ - 1) / rest_step_;
#pragma omp parallel for collapse(2) schedule(static) if (groups * outputs * rest > kSerialElements)
  for (int64_t row = 0; row < groups * output_tiles; ++row) {
    for (int64_t tile = 0; tile < rest_tiles; ++tile) {
      const int64_t group = row / output_tiles, first = row % output_tiles * kTile;
      const int64_t begin = tile * rest_step_, count = std::min(rest, begin + rest_step_) - begin;
      const int32_t *const from_rest = of_from.of_rest.data() + begin, *const to_rest = of_to.of_rest.data() + begin;
      for (int64_t output = first; output < std::min(outputs, first + kTile); ++output) {
        const float* const source = from + of_from.of_group[group] + of_from.of_output[output];
        T* const target = to + of_to.of_group[group] + of_to.of_output[output];
        CopyRest(source, from_rest, count, add, target, to_rest);
      }
    }
  }
}

}  // namespace hp::onednn
