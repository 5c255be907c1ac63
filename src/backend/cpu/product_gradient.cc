#include "backend/cpu/product_gradient.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/pixel_gradient.h"
#include "backend/cpu/window_gradient.h"

#include <algorithm>

namespace hp::onednn {
namespace {

constexpr int64_t kSumColumns = 16;  // of a thread's piece: 32 bytes of each row
constexpr int64_t kSumRows = 256;    // that are added up before they join the sum of those above

template <typename Gradient>
std::unique_ptr<ProductGradient> IfUsable(const Context& context, const ConvolutionDesc& desc, const Shape& in,
                                          const Shape& out) {
  auto gradient = std::make_unique<Gradient>(context, desc, in, out);
  if (!gradient->usable()) return nullptr;
  return gradient;
}

}  // namespace

std::unique_ptr<ProductGradient> MakeProductGradient(const Context& context, const ConvolutionDesc& desc,
                                                     const Shape& in, const Shape& out) {
  if (PixelGradient::Fits(desc)) return IfUsable<PixelGradient>(context, desc, in, out);
  if (HasAmx() && WindowGradient::Fits(desc, in, out)) return IfUsable<WindowGradient>(context, desc, in, out);
  return nullptr;
}

// Some rows at a time, since a sum of 50,000 numbers in a row would lose digits.
void SumOverPixels(const BFloat16* d_y, int64_t pixels, int64_t outputs, bool add, float* sums) {
#pragma omp parallel for schedule(static) if (pixels * outputs > kSerialElements)
  for (int64_t first = 0; first < outputs; first += kSumColumns) {
    const int64_t columns = std::min(kSumColumns, outputs - first);
    float all[kSumColumns] = {}, part[kSumColumns];
    for (int64_t row = 0; row < pixels; row += kSumRows) {
      ColumnSums(d_y + row * outputs + first, std::min(kSumRows, pixels - row), columns, outputs, false, part);
      for (int64_t c = 0; c < columns; ++c) all[c] += part[c];
    }
    for (int64_t c = 0; c < columns; ++c) sums[first + c] = add ? sums[first + c] + all[c] : all[c];
  }
}

}  // namespace hp::onednn
