// Floats of the bytes of records, or what a convolution on tensor cores reads: each byte is read once and each value
// written once, and the mean comes from the cache.
#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/rows.h"

namespace hp::cuda {
namespace {

/// Writes value `w` of line `line` = (row * C + c) * H + h.
struct FloatOfByte {
  RawImageRule rule;
  Divisor channels, height;
  const RawImage* images;
  const uint8_t* bytes;
  float* out;

  HP_HOST_DEVICE void operator()(int64_t line, uint32_t w) const {
    uint32_t h, c;
    const uint32_t row = channels.Quotient(height.Quotient(static_cast<uint32_t>(line), &h), &c);
    out[line * rule.width + w] = rule.ValueOf(images[row], bytes + row * rule.values(), c, h, w);
  }
};

/// Writes pixel `w` of line `line` = row * H + h, with zeros behind its channels, in one access.
template <typename T>
struct PixelOfBytes {
  static constexpr int kWidth = kPackWidth<T>;
  RawImageRule rule;
  Divisor height;
  const RawImage* images;
  const uint8_t* bytes;
  T* out;

  HP_HOST_DEVICE void operator()(int64_t line, uint32_t w) const {
    uint32_t h;
    const uint32_t row = height.Quotient(static_cast<uint32_t>(line), &h);
    Pack<float, kWidth> pixel = {};
    for (int c = 0; c < kWidth; ++c) {
      if (c < rule.channels) pixel.of[c] = rule.ValueOf(images[row], bytes + row * rule.values(), c, h, w);
    }
    WritePack(out + (line * rule.width + w) * kWidth, pixel);
  }
};

}  // namespace

void FloatImages(const GpuStream& stream, const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out) {
  const auto* const images = reinterpret_cast<const RawImage*>(raw);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(images + rows);
  const int64_t lines = rows * rule.channels * rule.height;
  CHECK_LT(lines, int64_t{1} << 31);
  ForEachInRows(stream, lines, rule.width,
                FloatOfByte{rule, Divisor(rule.channels), Divisor(rule.height), images, bytes, out});
}

void PadImages(const GpuStream& stream, const RawImages& images, const TensorDesc& padded_desc, void* padded) {
  const RawImageRule& rule = images.rule;
  const int64_t rows = padded_desc.shape[0], lines = rows * rule.height;
  const auto* const heads = reinterpret_cast<const RawImage*>(images.data);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(heads + rows);
  CHECK_LT(lines, int64_t{1} << 31);
  WithElementType(padded_desc.element, [&](auto type) {
    using T = typename decltype(type)::Type;
    CHECK_EQ(padded_desc.shape, (Shape{rows, kPackWidth<T>, rule.height, rule.width}));
    ForEachInRows(stream, lines, rule.width,
                  PixelOfBytes<T>{rule, Divisor(rule.height), heads, bytes, static_cast<T*>(padded)});
  });
}

}  // namespace hp::cuda
