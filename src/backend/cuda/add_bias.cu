#include "backend/activation_rules.h"
#include "backend/cuda/add_bias.h"
#include "backend/cuda/channels.h"
#include "backend/cuda/element.h"

#include <algorithm>

namespace hp::cuda {
namespace {

constexpr int64_t kRows = 16;  // of a thread

/// Element i = (strip of rows, column), so that a thread divides once and reads its bias once. y is read and written
/// once, neighbouring columns by neighbouring threads.
template <typename T>
struct AddToStrip {
  const T* bias;
  int64_t rows, columns, stride;
  T* y;
  bool relu;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t strip = i / columns, column = i - strip * columns;
    const int64_t begin = strip * kRows, end = begin + kRows < rows ? begin + kRows : rows;
    const float value = ToFloat(bias[column]);
    for (int64_t row = begin; row < end; ++row) {
      T* const at = y + row * stride + column;
      const float sum = ToFloat(*at) + value;
      Put(relu ? activation::Relu<activation::From::kOutput>().Value(sum) : sum, at);
    }
  }
};

/// NCHW.
struct AddToChannel {
  const float* bias;
  float* y;
  bool relu;
  HP_HOST_DEVICE void operator()(int64_t offset, uint32_t channel) const {
    const float sum = y[offset] + bias[channel];
    y[offset] = relu ? activation::Relu<activation::From::kOutput>().Value(sum) : sum;
  }
};

}  // namespace

void AddBias(const GpuStream& stream, int64_t rows, int64_t columns, int64_t stride, const void* bias,
             ElementType element, void* y, bool relu) {
  WithElementType(element, [&](auto type) {
    using T = typename decltype(type)::Type;
    ForEach(stream, (rows + kRows - 1) / kRows * columns,
            AddToStrip<T>{static_cast<const T*>(bias), rows, columns, stride, static_cast<T*>(y), relu});
  });
}

void AddChannelBias(const GpuStream& stream, const TensorDesc& desc, const void* bias, void* y, bool relu) {
  const int64_t channels = desc.shape[1];
  if (LiesNhwc(desc)) {
    return AddBias(stream, desc.count() / channels, channels, channels, bias, desc.element, y, relu);
  }
  CHECK(desc.element == ElementType::kFloat32) << "16 bits in NCHW";
  ForEachWithChannel(stream, Channels(desc),
                     AddToChannel{static_cast<const float*>(bias), static_cast<float*>(y), relu});
}

}  // namespace hp::cuda
