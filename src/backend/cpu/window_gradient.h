#pragma once

#include "backend/cpu/matrix_product.h"
#include "backend/cpu/pair_format.h"
#include "backend/cpu/product_gradient.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hp::onednn {

/// The weights' gradient as sums of products d_y^T X over a few images: d_y [pixels, O], and X [pixels, window x C]
/// what each window sees. X is written as the product reads it and stays in the cache until it does. Of few input
/// channels or small images oneDNN's convolution takes up to three times as long (README.md of this room).
class WindowGradient final : public ProductGradient {
 public:
  /// Whether with AMX it was the faster one for such shapes. @param in, out shapes of x and y.
  static bool Fits(const ConvolutionDesc& desc, const Shape& in, const Shape& out);

  /// @param desc that Fits. Throws dnnl::error.
  WindowGradient(const Context& context, const ConvolutionDesc& desc, const Shape& in, const Shape& out);
  /// Whether oneDNN has a kernel for it that reads pairs of rows.
  bool usable() const { return pairs_ && !set_.is_reference() && !add_.is_reference(); }
  size_t scratch_bytes() const override { return panel_bytes() + sums_bytes() + product_bytes(); }
  void Run(const Context& context, const BFloat16* x, const BFloat16* d_y, bool add, float* d_weights, float* d_bias,
           std::byte* scratch) const override;

 private:
  size_t panel_bytes() const;  // multiples of 64
  size_t sums_bytes() const;
  size_t product_bytes() const;
  /// X of some images, beginning at those of `x`.
  void GatherWindows(const BFloat16* x, BFloat16* panel) const;
  /// What window `pixel` of these images sees, [window, C]; zeros beyond the borders.
  void CopyWindow(const BFloat16* x, int64_t pixel, BFloat16* to) const;
  /// From sums [O, window, C].
  void StoreGradient(const float* sums, bool add, float* d_weights) const;

  const ConvolutionDesc desc_;
  const Images in_, out_;
  const int64_t window_, columns_;         // pixels of a window, and their channels
  const int64_t images_at_once_, pixels_;  // of one product
  const MatrixProduct set_, add_;
  const std::optional<PairFormat> pairs_;
};

}  // namespace hp::onednn
