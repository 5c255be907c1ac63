#include "backend/cpu/pixel_gradient.h"

#include "backend/cpu/column_sums.h"

#include <algorithm>
#include <cstring>

namespace hp::onednn {
namespace {

MatrixProduct PixelProduct(const Context& context, int64_t outputs, int64_t channels, int64_t pixels, bool add) {
  return {context,
          {outputs, channels, pixels},
          {1, outputs, ElementType::kBFloat16},
          {channels, 1, ElementType::kBFloat16},
          {channels, add}};
}

}  // namespace

bool PixelGradient::Fits(const ConvolutionDesc& desc) {
  return desc.kernel_h == 1 && desc.kernel_w == 1 && desc.pad_h == 0 && desc.pad_w == 0 && desc.group == 1;
}

PixelGradient::PixelGradient(const Context& context, const ConvolutionDesc& desc, const Shape& in, const Shape& out)
    : stride_h_(desc.stride_h),
      stride_w_(desc.stride_w),
      in_(in),
      out_(out),
      set_(PixelProduct(context, out_.channels, in_.channels, out_.pixels(), false)),
      add_(PixelProduct(context, out_.channels, in_.channels, out_.pixels(), true)) {}

size_t PixelGradient::gathered_bytes() const {
  return gathers() ? (out_.pixels() * in_.channels * sizeof(BFloat16) + 63) / 64 * 64 : 0;
}

size_t PixelGradient::product_bytes() const { return std::max(set_.scratch_bytes(), add_.scratch_bytes()); }

void PixelGradient::Run(const Context& context, const BFloat16* x, const BFloat16* d_y, bool add, float* d_weights,
                        float* d_bias, std::byte* scratch) const {
  if (gathers()) {
    auto* const gathered = reinterpret_cast<BFloat16*>(scratch);
    Gather(x, gathered);
    x = gathered;
  }
  (add ? add_ : set_).Run(context, d_y, x, d_weights, scratch + gathered_bytes());
  if (d_bias != nullptr) SumOverPixels(d_y, out_.pixels(), out_.channels, add, d_bias);
}

void PixelGradient::Gather(const BFloat16* x, BFloat16* to) const {
  const int64_t lines = out_.count * out_.height, channels = in_.channels;
#pragma omp parallel for schedule(static) if (out_.pixels() * channels > kSerialElements)
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t row = line / out_.height * in_.height + line % out_.height * stride_h_;
    const BFloat16* const from = x + row * in_.width * channels;
    for (int64_t w = 0; w < out_.width; ++w) {
      std::memcpy(to + (line * out_.width + w) * channels, from + w * stride_w_ * channels,
                  channels * sizeof(BFloat16));
    }
  }
}

}  // namespace hp::onednn
