#include "backend/cpu/lrn.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"

#include <algorithm>
#include <new>

namespace hp {
namespace {

/// y_c = x_c s_c^-beta, s_c = k + alpha/n sum of x^2 over the n channels around c (Krizhevsky et al. 2012,
/// section 3.3).
///
/// Works on tiles of some pixels with all their channels: squares go into a buffer with a margin of zeros on either
/// side of the channels, from which each window is a sum of n shifted vectors whatever the layout is. Nothing is kept
/// for the backward pass: the op is bound by memory, and to compute s again costs less than to write and read it.
///
/// @tparam T float or BFloat16.
template <typename Power, typename T>
class LrnAcrossOp final : public Op {
 public:
  LrnAcrossOp(const LrnDesc& desc, const TensorDesc& in)
      : dense_(in.dense()),
        images_(in.shape[0]),
        channels_(in.shape[1]),
        block_(dense_ ? 1 : in.channel_block),
        spatial_(in.shape.count(2)),
        // About 2,048 elements: three buffers and three tensors' parts of a tile stay in the first-level cache.
        tile_(std::min(spatial_, std::clamp<int64_t>(2048 / channels_, 4, 64))),
        padded_(channels_ + desc.local_size - 1),
        terms_(MakeTerms(desc, dense_ ? tile_ : 1)) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override {
    const T* const in = DataOf<const T>(args.in[0]);
    T* const out = DataOf<T>(args.out[0]);
    ForEachTile(1, [&](const Tile& tile, float* squares) {
      const T* const x = in;
      T* const y = out;
      const Terms t = terms_;
      ForEachVector(tile, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        Store<W>(squares + at + t.centre, Load<W>(x + i) * Load<W>(x + i));
      });
      ForEachVector(tile, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        Store<W>(y + i, Load<W>(x + i) * t.power.template operator()<W>(t.template Scale<W>(squares + at)));
      });
    });
  }

  /// dx_c = dy_c s_c^-beta - 2 alpha beta / n x_c sum over the window of dy x s^-(beta+1).
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const T *const in = DataOf<const T>(args.in[0]), *const d_out = DataOf<const T>(args.d_out[0]);
    T* const d_in = DataOf<T>(args.d_in[0]);
    ForEachTile(3, [&](const Tile& tile, float* squares) {
      const T *const x = in, *const dy = d_out;
      T* const dx = d_in;
      float *const ratios = squares + tile_ * padded_, *const powers = ratios + tile_ * padded_;
      const Terms t = terms_;
      ForEachVector(tile, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        Store<W>(squares + at + t.centre, Load<W>(x + i) * Load<W>(x + i));
      });
      ForEachVector(tile, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        FloatVec<W> next;
        Store<W>(powers + at, t.power.template operator()<W>(t.template Scale<W>(squares + at), &next));
        Store<W>(ratios + at + t.centre, Load<W>(dy + i) * Load<W>(x + i) * next);
      });
      ForEachVector(tile, [&](auto width, int64_t i, int64_t at) {
        constexpr int W = decltype(width)::value;
        Store<W>(dx + i, Load<W>(dy + i) * Load<W>(powers + at) +
                             t.gradient_scale * Load<W>(x + i) * t.template WindowSum<W>(ratios + at));
      });
    });
  }
  bool backward_reads_output() const override { return false; }

 private:
  /// What the inner loops need, copied into their scope: read through `this` it would be loaded again after each store.
  struct Terms {
    float k, scale, gradient_scale;
    Power power;
    int64_t size;    ///< of the window
    int64_t stride;  ///< from channel to channel in a buffer
    int64_t centre;  ///< from the window's first element to its own

    template <int W>
    FloatVec<W> WindowSum(const float* first) const {
      const auto at = [&](int64_t i) { return Load<W>(first + i * stride); };
      // Caffe's default, without a loop whose counters take registers from the vectors.
      if (size == 5) return at(0) + at(1) + at(2) + at(3) + at(4);
      FloatVec<W> sum = at(0);
      for (int64_t i = 1; i < size; ++i) sum += at(i);
      return sum;
    }
    template <int W>
    FloatVec<W> Scale(const float* squares) const {
      return k + scale * WindowSum<W>(squares);
    }
  };
  static Terms MakeTerms(const LrnDesc& desc, int64_t stride) {
    const float scale = desc.alpha / static_cast<float>(desc.local_size);
    const int64_t margin = (desc.local_size - 1) / 2;
    return {desc.k, scale, -2 * scale * desc.beta, Power(desc.beta), desc.local_size, stride, margin * stride};
  }
  struct Tile {
    int64_t begin;  ///< offset of its first pixel's channel 0
    int64_t pixels;
  };

  /// Calls body(tile, zeroed memory of `buffers` tiles with margins) for all tiles, in parallel.
  template <typename Body>
  void ForEachTile(int buffers, const Body& body) const {
    const int64_t tiles = (spatial_ + tile_ - 1) / tile_;
    bool out_of_memory = false;
#pragma omp parallel reduction(|| : out_of_memory) if (images_ * channels_ * spatial_ > kSerialElements)
    {
      const AlignedFloats buffer(buffers * tile_ * padded_ + 16);
      out_of_memory = buffer.data() == nullptr;
#pragma omp for collapse(2) schedule(static)
      for (int64_t image = 0; image < images_; ++image) {
        for (int64_t i = 0; i < tiles; ++i) {
          if (out_of_memory) continue;
          const int64_t first = i * tile_;
          body(Tile{image * channels_ * spatial_ + first * block_, std::min(tile_, spatial_ - first)}, buffer.data());
        }
      }
    }
    if (out_of_memory) throw std::bad_alloc();
  }

  /// Calls body(width, offset in the tensor, offset of the window's first element in a buffer) for all vectors of a
  /// tile. A vector runs along pixels in the dense layout, where the buffer is [channel][pixel], else along channels,
  /// where it is [pixel][channel].
  template <typename Body>
  void ForEachVector(const Tile& tile, const Body& body) const {
    const int64_t block = block_, padded = padded_, pixels = tile.pixels;
    if (dense_) {
      for (int64_t c = 0; c < channels_; ++c) {
        ForEachChunk(pixels, [&](auto width, int64_t pixel) {
          body(width, tile.begin + c * spatial_ + pixel, c * tile_ + pixel);
        });
      }
      return;
    }
    for (int64_t c = 0; c < channels_; c += block) {
      ForEachChunk(block, [&](auto width, int64_t in_block) {
        int64_t i = tile.begin + c * spatial_ + in_block, at = c + in_block;
        for (int64_t pixel = 0; pixel < pixels; ++pixel, i += block, at += padded) body(width, i, at);
      });
    }
  }

  const bool dense_;
  const int64_t images_, channels_, block_, spatial_;
  const int64_t tile_;    ///< pixels
  const int64_t padded_;  ///< channels with their margins
  const Terms terms_;
};

template <typename T>
struct AcrossOf {
  template <typename Power>
  using Kernel = LrnAcrossOp<Power, T>;
};

}  // namespace

Backend::OpPtr MakeLrnAcrossChannels(const LrnDesc& desc, const TensorDesc& in) {
  return OfElement(in.element, [&](auto tag) {
    return MakeLrnKernel<AcrossOf<typename decltype(tag)::Type>::template Kernel>(desc, in);
  });
}

StatusOr<Backend::OpPtr> CpuBackend::Lrn(const LrnDesc& desc, const Descs& in) {
  if (desc.region == LrnDesc::kAcrossChannels) return MakeLrnAcrossChannels(desc, in[0]);
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> { return MakeLrnWithinChannel(desc, floats[0]); });
}

}  // namespace hp
