#include "backend/cuda/add_layout.h"
#include "backend/cuda/launch.h"

namespace hp::cuda {
namespace {

/// Made for weights, which are small: `to` is read and written in order, `from` comes from the cache where it isn't
/// read in order.
struct AddElement {
  const float* from;
  int64_t channels, pixels;
  float* to;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / pixels, pixel = i - row * pixels;
    const int64_t image = row / channels, channel = row - image * channels;
    to[i] += from[(image * pixels + pixel) * channels + channel];
  }
};

}  // namespace

void AddNhwcToDense(const GpuStream& stream, const Shape& shape, const float* from, float* to) {
  ForEach(stream, shape.count(), AddElement{from, shape[1], shape.count(2), to});
}

}  // namespace hp::cuda
