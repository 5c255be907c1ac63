#include "backend/cuda/add_layout.h"
#include "backend/cuda/element.h"

namespace hp::cuda {
namespace {

/// Made for weights, which are small: `to` is read and written in order, `from` comes from the cache where it isn't
/// read in order.
template <typename T>
struct AddElement {
  const T* from;
  int64_t channels, pixels;
  float* to;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / pixels, pixel = i - row * pixels;
    const int64_t image = row / channels, channel = row - image * channels;
    to[i] += ToFloat(from[(image * pixels + pixel) * channels + channel]);
  }
};

}  // namespace

void AddNhwcToDense(const GpuStream& stream, const TensorDesc& from_desc, const void* from, float* to) {
  const Shape& shape = from_desc.shape;
  WithElementType(from_desc.element, [&](auto type) {
    using T = typename decltype(type)::Type;
    ForEach(stream, shape.count(), AddElement<T>{static_cast<const T*>(from), shape[1], shape.count(2), to});
  });
}

}  // namespace hp::cuda
