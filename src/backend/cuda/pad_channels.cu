#include "backend/cuda/element.h"
#include "backend/cuda/pad_channels.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"

namespace hp::cuda {
namespace {

/// Where the channels of a tensor without padding lie, in either layout.
struct FewChannels {
  int64_t image;           ///< elements from one image to the next
  int64_t channel, pixel;  ///< and likewise
  int channels;

  explicit FewChannels(const TensorDesc& desc)
      : image(desc.shape.count(1)),
        channel(LiesNhwc(desc) ? 1 : desc.shape.count(2)),
        pixel(LiesNhwc(desc) ? desc.shape[1] : 1),
        channels(static_cast<int>(desc.shape[1])) {}
};

/// A pixel is written in one access. Of NCHW, neighbouring threads read neighbouring pixels of each channel.
template <typename From, typename To>
struct PadPixel {
  static constexpr int kWidth = kPackWidth<To>;
  FewChannels shape;
  int64_t pixels;
  const From* from;
  To* to;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t pixel) const {
    const From* const at = from + image * shape.image + pixel * shape.pixel;
    Pack<float, kWidth> padded;
    for (int c = 0; c < kWidth; ++c) padded.of[c] = c < shape.channels ? ToFloat(at[c * shape.channel]) : 0;
    WritePack(to + (image * pixels + pixel) * kWidth, padded);
  }
};

template <typename From, typename To>
struct TakePixel {
  static constexpr int kWidth = kPackWidth<From>;
  FewChannels shape;
  int64_t pixels;
  const From* from;
  To* to;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t pixel) const {
    To* const at = to + image * shape.image + pixel * shape.pixel;
    const Pack<float, kWidth> padded = ReadPack<kWidth>(from + (image * pixels + pixel) * kWidth);
    for (int c = 0; c < kWidth; ++c) {
      if (c < shape.channels) Put(padded.of[c], at + c * shape.channel);
    }
  }
};

void CheckPadded(const TensorDesc& desc, const TensorDesc& padded_desc) {
  const Shape &shape = desc.shape, &padded = padded_desc.shape;
  const int64_t pack = 16 / static_cast<int64_t>(BytesOf(padded_desc.element));
  CHECK(padded[1] == pack && shape[1] <= pack && shape.With(1, pack) == padded && LiesNhwc(padded_desc))
      << "[" << shape << "] padded to [" << padded << "]";
  CHECK(desc.element == padded_desc.element || desc.element == ElementType::kFloat32) << "two types of 16 bits";
}

/// Calls visit with the type of a tensor and that of its padded form, which are equal, or the first is float32.
template <typename Visit>
void WithTypes(const TensorDesc& desc, const TensorDesc& padded_desc, const Visit& visit) {
  WithElementType(padded_desc.element, [&](auto padded) {
    if (desc.element == padded_desc.element) return visit(padded, padded);
    visit(TypeTag<float>(), padded);
  });
}

}  // namespace

void PadChannels(const GpuStream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& padded_desc,
                 void* padded) {
  CheckPadded(from_desc, padded_desc);
  const int64_t pixels = from_desc.shape.count(2);
  WithTypes(from_desc, padded_desc, [&](auto from_type, auto padded_type) {
    using From = typename decltype(from_type)::Type;
    using To = typename decltype(padded_type)::Type;
    ForEachInRows(
        stream, from_desc.shape[0], pixels,
        PadPixel<From, To>{FewChannels(from_desc), pixels, static_cast<const From*>(from), static_cast<To*>(padded)});
  });
}

void DropPadding(const GpuStream& stream, const TensorDesc& padded_desc, const void* padded, const TensorDesc& to_desc,
                 void* to) {
  CheckPadded(to_desc, padded_desc);
  const int64_t pixels = to_desc.shape.count(2);
  WithTypes(to_desc, padded_desc, [&](auto to_type, auto padded_type) {
    using From = typename decltype(padded_type)::Type;
    using To = typename decltype(to_type)::Type;
    ForEachInRows(
        stream, to_desc.shape[0], pixels,
        TakePixel<From, To>{FewChannels(to_desc), pixels, static_cast<const From*>(padded), static_cast<To*>(to)});
  });
}

}  // namespace hp::cuda
