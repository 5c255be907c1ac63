#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/dropout_mask.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int64_t kRunUnits = 4096;     // factors made at once: 16 KiB on the stack
constexpr int64_t kBlockChannels = 16;  // of a blocked layout
constexpr int64_t kBlockPixels = kRunUnits / kBlockChannels;

/// y = x * factor in training, y = x in a test. The mask is made again in the backward pass: it costs less than the
/// memory of keeping one for every solver.
class DropoutOp final : public Op {
 public:
  DropoutOp(const DropoutDesc& desc, const TensorDesc& in)
      : mask_(desc.stream_key, desc.ratio),
        first_unit_(desc.first_unit),
        train_(desc.train),
        block_(EffectiveBlock(in)) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override { Apply(*args.batch, args.in[0], args.out[0].floats()); }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].floats() != nullptr) Apply(*args.batch, args.d_out[0], args.d_in[0].floats());
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  void Apply(const BatchContext& batch, const Tensor& from, float* to) const {
    if (!train_.value_or(batch.train)) {
      CopyLayout(from.desc, from.floats(), from.desc, to);
    } else if (block_ == 1) {
      ApplyDense(batch.first_sample, from, to);
    } else {
      ApplyBlocked(batch.first_sample, from, to);
    }
  }

  void ApplyDense(uint64_t first_sample, const Tensor& from, float* to) const {
    const int64_t units = from.shape().count(1), runs = (units + kRunUnits - 1) / kRunUnits;
    const float* x = from.floats();
    ForItems(from.shape()[0] * runs, from.count(), [&](int64_t i) {
      const int64_t row = i / runs, begin = i % runs * kRunUnits, end = std::min(units, begin + kRunUnits);
      alignas(64) float factors[kRunUnits];
      mask_.Fill(first_sample + row, first_unit_ + begin, first_unit_ + end, factors);
      const int64_t offset = row * units + begin;
#pragma omp simd
      for (int64_t u = 0; u < end - begin; ++u) to[offset + u] = x[offset + u] * factors[u];
    });
  }

  /// Units are numbered in NCHW order, so a tile of channels is taken through a buffer in that order.
  void ApplyBlocked(uint64_t first_sample, const Tensor& from, float* to) const {
    const int64_t channels = from.shape()[1], pixels = from.shape().count(2);
    const int64_t tiles_in_block = (block_ + kBlockChannels - 1) / kBlockChannels;
    const int64_t tiles = channels / block_ * tiles_in_block;
    ForItems(from.shape()[0] * tiles, from.count(), [&](int64_t i) {
      const int64_t row = i / tiles, block = i % tiles / tiles_in_block;
      const int64_t c = i % tiles % tiles_in_block * kBlockChannels;  // within the block
      const int64_t offset = (row * channels + block * block_) * pixels + c;
      ApplyTile(first_sample + row, block * block_ + c, std::min(kBlockChannels, block_ - c), pixels,
                from.floats() + offset, to + offset);
    });
  }

  void ApplyTile(uint64_t sample, int64_t channel, int64_t channels, int64_t pixels, const float* from,
                 float* to) const {
    alignas(64) float factors[kBlockChannels * kBlockPixels];
    for (int64_t begin = 0; begin < pixels; begin += kBlockPixels) {
      const int64_t count = std::min(pixels - begin, kBlockPixels);
      const int64_t unit = first_unit_ + channel * pixels + begin;
      if (count == pixels) {
        mask_.Fill(sample, unit, unit + channels * pixels, factors);  // the tile's channels are neighbours
      } else {
        for (int64_t c = 0; c < channels; ++c) {
          mask_.Fill(sample, unit + c * pixels, unit + c * pixels + count, factors + c * count);
        }
      }
      for (int64_t s = 0; s < count; ++s) {
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t at = (begin + s) * block_ + c;
          to[at] = from[at] * factors[c * count + s];
        }
      }
    }
  }

  const DropoutMask mask_;
  const int64_t first_unit_;
  const std::optional<bool> train_;
  const int64_t block_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Dropout(const DropoutDesc& desc, const Descs& in) {
  return OnFloat32(
      in, [&](const Descs& floats) -> StatusOr<OpPtr> { return OpPtr(std::make_unique<DropoutOp>(desc, floats[0])); });
}

}  // namespace hp
