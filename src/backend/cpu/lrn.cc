#include "backend/cpu/lrn.h"

#include "backend/cpu/ops.h"

#include <algorithm>

namespace hp {
namespace {

/// y_c = x_c s_c^-beta, s_c = k + alpha/n sum of x^2 over the n channels around c (Krizhevsky et al. 2012,
/// section 3.3).
///
/// Works on tiles of some pixels with all their channels: squares go into a buffer with a margin of zeros on either
/// side of the channels, from which each window is a sum of n shifted vectors whatever the layout is. Nothing is kept
/// for the backward pass: the op is bound by memory, and to compute s again costs less than to write and read it.
template <typename Power>
class LrnAcrossOp final : public Op {
 public:
  LrnAcrossOp(const LrnDesc& desc, const TensorDesc& in)
      : size_(desc.local_size),
        margin_((desc.local_size - 1) / 2),
        scale_(desc.alpha / static_cast<float>(desc.local_size)),
        k_(desc.k),
        gradient_scale_(-2 * scale_ * desc.beta),
        power_(desc.beta),
        dense_(in.dense() || in.channel_block == 1),
        images_(in.shape[0]),
        channels_(in.shape[1]),
        block_(dense_ ? 1 : in.channel_block),
        spatial_(in.shape.count(2)),
        // About 2,048 elements: three buffers and three tensors' parts of a tile stay in the first-level cache.
        tile_(std::min(spatial_, std::clamp<int64_t>(2048 / channels_, 4, 64))),
        padded_(channels_ + 2 * margin_) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override {
    const float* x = args.in[0].data;
    float* y = args.out[0].data;
    ForEachTile(1, [&](int64_t image, int64_t first, int64_t pixels, float* squares) {
      ForEachVector(image, first, pixels, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        const FloatVec<W> value = Load<W>(x + i);
        Store<W>(squares + at, value * value);
      });
      ForEachVector(image, first, pixels, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        Store<W>(y + i, Load<W>(x + i) * power_.template operator()<W>(k_ + scale_ * WindowSum<W>(squares + at)));
      });
    });
  }

  /// dx_c = dy_c s_c^-beta - 2 alpha beta / n x_c sum over the window of dy x s^-(beta+1).
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float *x = args.in[0].data, *dy = args.d_out[0].data;
    float* dx = args.d_in[0].data;
    ForEachTile(3, [&](int64_t image, int64_t first, int64_t pixels, float* squares) {
      float *ratios = squares + tile_ * padded_, *powers = ratios + tile_ * padded_;
      ForEachVector(image, first, pixels, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        const FloatVec<W> value = Load<W>(x + i);
        Store<W>(squares + at, value * value);
      });
      ForEachVector(image, first, pixels, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        FloatVec<W> next;
        const FloatVec<W> power = power_.template operator()<W>(k_ + scale_ * WindowSum<W>(squares + at), &next);
        Store<W>(powers + at, power);
        Store<W>(ratios + at, Load<W>(dy + i) * Load<W>(x + i) * next);
      });
      ForEachVector(image, first, pixels, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        Store<W>(dx + i,
                 Load<W>(dy + i) * Load<W>(powers + at) + gradient_scale_ * Load<W>(x + i) * WindowSum<W>(ratios + at));
      });
    });
  }
  bool backward_reads_output() const override { return false; }

 private:
  /// Calls body(image, first pixel, pixels, zeroed memory of `buffers` tiles with margins) for all tiles, in parallel.
  template <typename Body>
  void ForEachTile(int buffers, const Body& body) const {
    const int64_t tiles = (spatial_ + tile_ - 1) / tile_;
#pragma omp parallel if (images_ * channels_ * spatial_ > kSerialElements)
    {
      AlignedFloats buffer(buffers * tile_ * padded_ + 16);
#pragma omp for collapse(2) schedule(static)
      for (int64_t image = 0; image < images_; ++image) {
        for (int64_t tile = 0; tile < tiles; ++tile) {
          body(image, tile * tile_, std::min(tile_, spatial_ - tile * tile_), buffer.data());
        }
      }
    }
  }

  /// Calls body(width, offset in the tensor, offset in a buffer) for all vectors of a tile. A vector runs along pixels
  /// in the dense layout, where the buffer is [channel][pixel], else along channels, where it is [pixel][channel].
  template <typename Body>
  void ForEachVector(int64_t image, int64_t first, int64_t pixels, const Body& body) const {
    const int64_t begin = image * channels_ * spatial_ + first * block_;
    if (dense_) {
      for (int64_t c = 0; c < channels_; ++c) {
        ForEachChunk(pixels, [&](auto width, int64_t pixel) {
          body(width, begin + c * spatial_ + pixel, (margin_ + c) * tile_ + pixel);
        });
      }
      return;
    }
    for (int64_t c = 0; c < channels_; c += block_) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        ForEachChunk(block_, [&](auto width, int64_t in_block) {
          body(width, begin + c * spatial_ + pixel * block_ + in_block, pixel * padded_ + margin_ + c + in_block);
        });
      }
    }
  }

  template <int W>
  FloatVec<W> WindowSum(const float* at) const {
    const int64_t stride = dense_ ? tile_ : 1;
    at -= margin_ * stride;
    FloatVec<W> sum = Load<W>(at);
    for (int64_t i = 1; i < size_; ++i) sum += Load<W>(at + i * stride);
    return sum;
  }

  const int64_t size_, margin_;
  const float scale_, k_, gradient_scale_;
  const Power power_;
  const bool dense_;
  const int64_t images_, channels_, block_, spatial_;
  const int64_t tile_;    ///< pixels
  const int64_t padded_;  ///< channels with their margins
};

}  // namespace

Backend::OpPtr MakeLrnAcrossChannels(const LrnDesc& desc, const TensorDesc& in) {
  return MakeLrnKernel<LrnAcrossOp>(desc, in);
}

StatusOr<Backend::OpPtr> MakeLrn(const LrnDesc& desc, const Backend::Descs& in) {
  return desc.region == LrnDesc::kAcrossChannels ? MakeLrnAcrossChannels(desc, in[0])
                                                 : MakeLrnWithinChannel(desc, in[0]);
}

}  // namespace hp
