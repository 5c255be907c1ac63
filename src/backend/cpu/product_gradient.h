#pragma once

#include "backend/backend.h"
#include "backend/cpu/onednn.h"
#include "base/bfloat16.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hp::onednn {

/// What a shape [N, C, H, W] says.
struct Images {
  explicit Images(const Shape& shape) : count(shape[0]), channels(shape[1]), height(shape[2]), width(shape[3]) {}
  int64_t pixels() const { return count * height * width; }  ///< of all images

  int64_t count, channels, height, width;
};

/// The gradients of a convolution's parameters in bfloat16 and NHWC by products, where those are faster than oneDNN's
/// convolution. Executor thread.
class ProductGradient {
 public:
  virtual ~ProductGradient() = default;
  /// Of what Run needs; aligned to 64 bytes.
  virtual size_t scratch_bytes() const = 0;
  /// By all threads of the team; done on return. @param d_weights [O, C, height, width of the window], Caffe's layout.
  /// @param d_bias [O], or null. @param add to what stands in both.
  virtual void Run(const Context& context, const BFloat16* x, const BFloat16* d_y, bool add, float* d_weights,
                   float* d_bias, std::byte* scratch) const = 0;
};

/// @param in, out shapes of x and y. @return null: the convolution is the faster one, or oneDNN has no kernel for the
/// products. Throws dnnl::error.
std::unique_ptr<ProductGradient> MakeProductGradient(const Context& context, const ConvolutionDesc& desc,
                                                     const Shape& in, const Shape& out);

/// sums[o] = (sums[o] +) the sum of d_y [pixels, outputs] over pixels: a bias gradient. By all threads of the team.
void SumOverPixels(const BFloat16* d_y, int64_t pixels, int64_t outputs, bool add, float* sums);

}  // namespace hp::onednn
