#pragma once

#include "backend/cpu/matrix_product.h"
#include "backend/cpu/product_gradient.h"

#include <cstddef>
#include <cstdint>

namespace hp::onednn {

/// Of windows of one pixel: the weights' gradient [O, C] is one product, d_y^T x, of d_y [pixels, O] and x [pixels, C],
/// and is written in Caffe's own layout. oneDNN's convolution has threads add whole gradients of their own instead,
/// which takes up to five times as long where images are small (README.md of this room).
class PixelGradient final : public ProductGradient {
 public:
  static bool Fits(const ConvolutionDesc& desc);

  /// @param desc that Fits. @param in, out shapes of x and y. Throws dnnl::error.
  PixelGradient(const Context& context, const ConvolutionDesc& desc, const Shape& in, const Shape& out);
  /// Whether oneDNN has a kernel for it.
  bool usable() const { return !set_.is_reference(); }
  size_t scratch_bytes() const override { return gathered_bytes() + product_bytes(); }
  void Run(const Context& context, const BFloat16* x, const BFloat16* d_y, bool add, float* d_weights, float* d_bias,
           std::byte* scratch) const override;

 private:
  bool gathers() const { return stride_h_ > 1 || stride_w_ > 1; }
  size_t gathered_bytes() const;  // a multiple of 64
  size_t product_bytes() const;
  /// The pixels of x that windows stand on, in the order of y's.
  void Gather(const BFloat16* x, BFloat16* to) const;

  const int64_t stride_h_, stride_w_;
  const Images in_, out_;
  const MatrixProduct set_, add_;
};

}  // namespace hp::onednn
