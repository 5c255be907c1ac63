#pragma once

#include "backend/backend.h"
#include "backend/box_ops.h"
#include "backend/window.h"
#include "base/host_device.h"

#include <cstdint>
#include <utility>

namespace hp {

/// Where the taps of a convolution's windows lie in dense images: of [rows * channels] planes [height, width] the
/// columns are [rows * channels][kernel_h * kernel_w] planes [out_h, out_w].
struct Im2colPlaces {
  int64_t rows, channels, height, width, out_h, out_w;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

  Im2colPlaces(const ConvolutionDesc& d, const Shape& in)
      : rows(in[0]),
        channels(in[1]),
        height(in[2]),
        width(in[3]),
        out_h(ConvolvedSize(in[2], d.kernel_h, d.stride_h, d.pad_h, d.dilation_h)),
        out_w(ConvolvedSize(in[3], d.kernel_w, d.stride_w, d.pad_w, d.dilation_w)),
        kernel_h(d.kernel_h),
        kernel_w(d.kernel_w),
        stride_h(d.stride_h),
        stride_w(d.stride_w),
        pad_h(d.pad_h),
        pad_w(d.pad_w),
        dilation_h(d.dilation_h),
        dilation_w(d.dilation_w) {}

  HP_HOST_DEVICE int64_t taps() const { return kernel_h * kernel_w; }
  int64_t planes() const { return rows * channels; }
  Shape columns() const { return {rows, channels * taps(), out_h, out_w}; }

  /// What one tap sees: the pixel (y * stride_h + top, x * stride_w + left) of its plane for window (y, x), which may
  /// lie in the padding.
  struct Tap {
    int64_t plane, top, left;
  };
  /// @param column plane of the columns.
  HP_HOST_DEVICE Tap TapOf(int64_t column) const {
    const int64_t plane = column / taps(), tap = column - plane * taps(), kh = tap / kernel_w, kw = tap - kh * kernel_w;
    return {plane, kh * dilation_h - pad_h, kw * dilation_w - pad_w};
  }
};

/// Backend::Im2col for any device.
/// @tparam Copies how a device copies: CopyLayout as ConcatOp's, and, for dense tensors,
///   void Unfold(element, const Im2colPlaces&, image, columns) const;
///   void Fold(element, const Im2colPlaces&, columns, image) const;
/// the second adds up what the taps of a pixel have, in the order of taps, in float32.
template <typename Copies>
class Im2colOp final : public DenseInputOp<Copies> {
 public:
  Im2colOp(Copies copies, const ConvolutionDesc& desc, const TensorDesc& in)
      : DenseInputOp<Copies>(std::move(copies), in), places_(desc, in.shape) {
    this->outputs_ = {{places_.columns(), 1, in.element}};
  }

  void Forward(const OpArgs& args) override {
    this->copies_.Unfold(this->in_.element, places_, this->DenseInput(args), args.out[0].data);
  }
  void BackwardInput(const OpArgs& args) override {
    this->PutGradient(
        args, [&](std::byte* dense) { this->copies_.Fold(this->in_.element, places_, args.d_out[0].data, dense); });
  }

 private:
  const Im2colPlaces places_;
};

}  // namespace hp
