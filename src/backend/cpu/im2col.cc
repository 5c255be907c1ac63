#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/im2col_op.h"

#include <algorithm>

namespace hp {
namespace {

/// Calls row(window, pixel) for each row of windows whose pixels of `tap` are in the image: where the first of them, in
/// column `begin`, lies in a plane of the columns and in one of the image. @param end of the columns.
template <typename Row>
void ForRowsInside(const Im2colPlaces& p, const Im2colPlaces::Tap& tap, int64_t begin, const Row& row) {
  for (int64_t y = 0; y < p.out_h; ++y) {
    const int64_t h = y * p.stride_h + tap.top;
    if (h < 0 || h >= p.height) continue;
    row(y * p.out_w + begin, h * p.width + begin * p.stride_w + tap.left);
  }
}

/// The windows along a row whose pixels of a tap are in the image.
Range ColumnsInside(const Im2colPlaces& p, const Im2colPlaces::Tap& tap) {
  const int64_t begin = tap.left >= 0 ? 0 : (-tap.left + p.stride_w - 1) / p.stride_w;
  const int64_t end = p.width > tap.left ? (p.width - 1 - tap.left) / p.stride_w + 1 : 0;
  return {std::min(begin, p.out_w), std::max(std::min(begin, p.out_w), std::min(end, p.out_w))};
}

struct Im2colCopies : HostCopies {
  void Unfold(ElementType, const Im2colPlaces& p, const void* image, void* columns) const {
    const int64_t plane = p.out_h * p.out_w, count = p.planes() * p.taps();
    ForItems(count, count * plane, [&](int64_t column) {
      const Im2colPlaces::Tap tap = p.TapOf(column);
      const Range inside = ColumnsInside(p, tap);
      const float* const from = static_cast<const float*>(image) + tap.plane * p.height * p.width;
      float* const to = static_cast<float*>(columns) + column * plane;
      std::fill_n(to, plane, 0.0f);
      ForRowsInside(p, tap, inside.begin,
                    [&, size = inside.size(), stride = p.stride_w](int64_t window, int64_t pixel) {
                      for (int64_t x = 0; x < size; ++x) to[window + x] = from[pixel + x * stride];
                    });
    });
  }
  void Fold(ElementType, const Im2colPlaces& p, const void* columns, void* image) const {
    const int64_t plane = p.out_h * p.out_w;
    ForItems(p.planes(), p.planes() * p.taps() * plane, [&](int64_t channel) {
      float* const to = static_cast<float*>(image) + channel * p.height * p.width;
      std::fill_n(to, p.height * p.width, 0.0f);
      for (int64_t column = channel * p.taps(); column < (channel + 1) * p.taps(); ++column) {
        const Im2colPlaces::Tap tap = p.TapOf(column);
        const Range inside = ColumnsInside(p, tap);
        const float* const from = static_cast<const float*>(columns) + column * plane;
        ForRowsInside(p, tap, inside.begin,
                      [&, size = inside.size(), stride = p.stride_w](int64_t window, int64_t pixel) {
                        for (int64_t x = 0; x < size; ++x) to[pixel + x * stride] += from[window + x];
                      });
      }
    });
  }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Im2col(const ConvolutionDesc& desc, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<Im2colOp<Im2colCopies>>(Im2colCopies(), desc, floats[0]));
  });
}

}  // namespace hp
