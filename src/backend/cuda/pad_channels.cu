#include "backend/cuda/channel_places.h"
#include "backend/cuda/element.h"
#include "backend/cuda/pad_channels.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"

namespace hp::cuda {
namespace {

/// A pixel is written in one access. Of NCHW, neighbouring threads read neighbouring pixels of each channel.
template <typename From, typename To>
struct PadPixel {
  static constexpr int kWidth = kPackWidth<To>;
  ChannelStrides strides;
  int channels;
  int64_t pixels;
  const From* from;
  To* to;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t pixel) const {
    const From* const at = from + image * strides.image + pixel * strides.pixel;
    Pack<float, kWidth> padded;
    for (int c = 0; c < kWidth; ++c) padded.of[c] = c < channels ? ToFloat(at[c * strides.channel]) : 0;
    WritePack(to + (image * pixels + pixel) * kWidth, padded);
  }
};

template <typename From, typename To>
struct TakePixel {
  static constexpr int kWidth = kPackWidth<From>;
  ChannelStrides strides;
  int channels;
  int64_t pixels;
  const From* from;
  To* to;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t pixel) const {
    To* const at = to + image * strides.image + pixel * strides.pixel;
    const Pack<float, kWidth> padded = ReadPack<kWidth>(from + (image * pixels + pixel) * kWidth);
    for (int c = 0; c < kWidth; ++c) {
      if (c < channels) Put(padded.of[c], at + c * strides.channel);
    }
  }
};

void CheckPadded(const TensorDesc& desc, const TensorDesc& padded_desc) {
  const Shape &shape = desc.shape, &padded = padded_desc.shape;
  const int64_t pack = 16 / static_cast<int64_t>(BytesOf(padded_desc.element));
  CHECK(padded[1] == pack && shape[1] <= pack && shape.With(1, pack) == padded && LiesNhwc(padded_desc))
      << "[" << shape << "] padded to [" << padded << "]";
}

}  // namespace

void PadChannels(const GpuStream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& padded_desc,
                 void* padded) {
  CheckPadded(from_desc, padded_desc);
  const int64_t pixels = from_desc.shape.count(2);
  WithFormTypes(padded_desc.element, from_desc.element, [&](auto padded_type, auto from_type) {
    using From = typename decltype(from_type)::Type;
    using To = typename decltype(padded_type)::Type;
    ForEachInRows(stream, from_desc.shape[0], pixels,
                  PadPixel<From, To>{ChannelStrides(from_desc), static_cast<int>(from_desc.shape[1]), pixels,
                                     static_cast<const From*>(from), static_cast<To*>(padded)});
  });
}

void DropPadding(const GpuStream& stream, const TensorDesc& padded_desc, const void* padded, const TensorDesc& to_desc,
                 void* to) {
  CheckPadded(to_desc, padded_desc);
  const int64_t pixels = to_desc.shape.count(2);
  WithFormTypes(padded_desc.element, to_desc.element, [&](auto padded_type, auto to_type) {
    using From = typename decltype(padded_type)::Type;
    using To = typename decltype(to_type)::Type;
    ForEachInRows(stream, to_desc.shape[0], pixels,
                  TakePixel<From, To>{ChannelStrides(to_desc), static_cast<int>(to_desc.shape[1]), pixels,
                                      static_cast<const From*>(padded), static_cast<To*>(to)});
  });
}

}  // namespace hp::cuda
