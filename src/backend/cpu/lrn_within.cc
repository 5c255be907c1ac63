#include "backend/cpu/lrn.h"

#include <algorithm>
#include <new>

namespace hp {
namespace {

/// y = x s^-beta, s = 1 + alpha/n^2 sum of x^2 over the n x n places around it in the same channel. Caffe builds this
/// from a square, an average pooling padded by (n-1)/2, whose windows never leave the padding (so its divisor is n^2
/// everywhere), and a power with shift 1: `k` plays no part.
///
/// Sums are separable: down the columns first, then along the row. They are not running sums, which would carry
/// rounding errors along.
template <typename Power>
class LrnWithinOp final : public Op {
 public:
  LrnWithinOp(const LrnDesc& desc, const TensorDesc& in)
      : size_(desc.local_size),
        margin_((desc.local_size - 1) / 2),
        scale_(desc.alpha / static_cast<float>(desc.local_size * desc.local_size)),
        gradient_scale_(-2 * scale_ * desc.beta),
        power_(desc.beta),
        block_(in.dense() ? 1 : in.channel_block),
        planes_(in.shape[0] * in.shape[1] / block_),
        height_(in.shape[2]),
        width_(in.shape[3]),
        row_(block_ * width_) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override {
    const float* x = args.in[0].floats();
    float* y = args.out[0].floats();
    ForEachPlane(1, [&](auto width, int64_t plane, float* sums) {
      constexpr int W = decltype(width)::value;
      for (int64_t h = 0; h < height_; ++h) {
        SumSquares<W>(x + plane, h, sums);
        for (int64_t w = 0; w < width_; ++w) {
          const int64_t i = plane + h * row_ + w * block_;
          const FloatVec<W> scale = 1.0f + scale_ * RowSum<W>(sums + w * W);
          Store<W>(y + i, Load<W>(x + i) * power_.template operator()<W>(scale));
        }
      }
    });
  }

  /// dx = dy s^-beta - 2 alpha beta / n^2 x sum over the window of dy x s^-(beta+1). The last n rows of ratios and
  /// powers stay in two rings, so that each row is computed once.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float *x = args.in[0].floats(), *dy = args.d_out[0].floats();
    float* dx = args.d_in[0].floats();
    ForEachPlane(1 + 2 * size_, [&](auto width, int64_t plane, float* sums) {
      constexpr int W = decltype(width)::value;
      const int64_t line = (width_ + 2 * margin_) * W;
      float *ratios = sums + line, *powers = ratios + size_ * line;
      for (int64_t h = -margin_; h < height_; ++h) {
        const int64_t ahead = h + margin_;
        if (ahead < height_) {
          const int64_t slot = ahead % size_ * line;
          SumSquares<W>(x + plane, ahead, sums);
          ScaleRow<W>(x + plane + ahead * row_, dy + plane + ahead * row_, sums, ratios + slot, powers + slot);
        }
        if (h < 0) continue;
        SumRatios<W>(ratios, h, sums);
        for (int64_t w = 0; w < width_; ++w) {
          const int64_t i = plane + h * row_ + w * block_;
          Store<W>(dx + i, Load<W>(dy + i) * Load<W>(powers + h % size_ * line + w * W) +
                               gradient_scale_ * Load<W>(x + i) * RowSum<W>(sums + w * W));
        }
      }
    });
  }
  bool backward_reads_output() const override { return false; }

 private:
  /// Calls body(width, offset of the plane's channels in the tensor, memory of `lines` rows with margins; the first
  /// row's margins are zero) for all planes, in parallel.
  template <typename Body>
  void ForEachPlane(int64_t lines, const Body& body) const {
    const int64_t padded = width_ + 2 * margin_;
    bool out_of_memory = false;
#pragma omp parallel reduction(|| : out_of_memory) if (planes_ * height_ * row_ > kSerialElements)
    {
      const AlignedFloats buffer(lines * padded * 16);
      out_of_memory = buffer.data() == nullptr;
#pragma omp for schedule(static)
      for (int64_t plane = 0; plane < planes_; ++plane) {
        if (out_of_memory) continue;
        ForEachChunk(block_, [&](auto width, int64_t channel) {
          constexpr int W = decltype(width)::value;
          std::fill_n(buffer.data(), margin_ * W, 0.0f);
          std::fill_n(buffer.data() + (margin_ + width_) * W, margin_ * W, 0.0f);
          body(width, plane * height_ * row_ + channel, buffer.data());
        });
      }
    }
    if (out_of_memory) throw std::bad_alloc();
  }

  /// Sums of squares down the columns of the window around row h.
  template <int W>
  void SumSquares(const float* x, int64_t h, float* sums) const {
    const int64_t begin = std::max<int64_t>(h - margin_, 0), end = std::min(h + margin_ + 1, height_);
    for (int64_t w = 0; w < width_; ++w) {
      FloatVec<W> sum = {};
      for (int64_t i = begin; i < end; ++i) {
        const FloatVec<W> value = Load<W>(x + i * row_ + w * block_);
        sum += value * value;
      }
      Store<W>(sums + (margin_ + w) * W, sum);
    }
  }

  /// Ratios dy x s^-(beta+1) and powers s^-beta of one row.
  template <int W>
  void ScaleRow(const float* x, const float* dy, const float* sums, float* ratios, float* powers) const {
    for (int64_t w = 0; w < width_; ++w) {
      FloatVec<W> next;
      const FloatVec<W> scale = 1.0f + scale_ * RowSum<W>(sums + w * W);
      Store<W>(powers + w * W, power_.template operator()<W>(scale, &next));
      Store<W>(ratios + w * W, Load<W>(dy + w * block_) * Load<W>(x + w * block_) * next);
    }
  }

  /// Sums of ratios down the columns of the window around row h.
  template <int W>
  void SumRatios(const float* ratios, int64_t h, float* sums) const {
    const int64_t line = (width_ + 2 * margin_) * W;
    const int64_t begin = std::max<int64_t>(h - margin_, 0), end = std::min(h + margin_ + 1, height_);
    for (int64_t w = 0; w < width_; ++w) {
      FloatVec<W> sum = {};
      for (int64_t i = begin; i < end; ++i) sum += Load<W>(ratios + i % size_ * line + w * W);
      Store<W>(sums + (margin_ + w) * W, sum);
    }
  }

  template <int W>
  FloatVec<W> RowSum(const float* first) const {
    FloatVec<W> sum = Load<W>(first);
    for (int64_t i = 1; i < size_; ++i) sum += Load<W>(first + i * W);
    return sum;
  }

  const int64_t size_, margin_;
  const float scale_, gradient_scale_;
  const Power power_;
  const int64_t block_, planes_, height_, width_;
  const int64_t row_;  ///< elements from one row of a plane to the next
};

}  // namespace

Backend::OpPtr MakeLrnWithinChannel(const LrnDesc& desc, const TensorDesc& in) {
  return MakeLrnKernel<LrnWithinOp>(desc, in);
}

}  // namespace hp
