#pragma once

#include "base/host_device.h"

#include <cstddef>
#include <cstdint>

namespace hp {

/// Images of a micro-batch as the bytes of their records, cropped and otherwise untouched: a quarter of what they take
/// as floats, for devices that make the floats themselves. In one piece of memory: a RawImage for each row, right
/// behind them the bytes of each, channels * height * width, row by row. Of an encoded one these begin with the JPEG
/// that it is cropped from: a device decodes it and puts the crop in its place.
struct RawImage {
  int32_t top = 0, left = 0;    ///< of the crop in the whole image, which decide what of a mean image is subtracted
  int32_t mirrored = 0;         ///< 1: from left to right
  int32_t channels_inside = 0;  ///< order of the bytes; 0: [C, H, W], 1: [H, W, C]
  int32_t encoded_bytes = 0;    ///< of a JPEG, of three channels; 0: the bytes are pixels
  int32_t whole_height = 0, whole_width = 0;  ///< of an encoded one: pixels of the JPEG
};

/// @param values of one image. @return bytes of `rows` raw images.
inline size_t RawImagesBytes(int64_t rows, int64_t values) { return rows * (sizeof(RawImage) + values); }

/// What becomes of raw images: (byte - mean) * scale, in dense [rows, C, H, W]; the same bits on host and GPU, as there
/// is nothing in it that could be fused.
struct RawImageRule {
  int64_t channels = 0, height = 0, width = 0;  ///< of a crop
  float scale = 1;
  const float* mean = nullptr;              ///< [C, mean_height, mean_width]: of whole images, or one for each channel
  int64_t mean_height = 1, mean_width = 1;  ///< both 1: one for each channel

  HP_HOST_DEVICE int64_t values() const { return channels * height * width; }
  HP_HOST_DEVICE int64_t mean_values() const { return channels * mean_height * mean_width; }

  /// The value at (c, h, w). @param bytes of the image.
  HP_HOST_DEVICE float ValueOf(const RawImage& image, const uint8_t* bytes, uint32_t c, uint32_t h, uint32_t w) const {
    const int64_t from = image.mirrored != 0 ? width - 1 - w : w;
    const int64_t at = image.channels_inside != 0 ? (h * width + from) * channels + c : (c * height + h) * width + from;
    const bool whole = mean_height * mean_width > 1;
    const float minus = mean[whole ? (c * mean_height + image.top + h) * mean_width + image.left + from : c];
    return (static_cast<float>(bytes[at]) - minus) * scale;
  }
};

/// The raw images of a micro-batch, and what becomes of them.
struct RawImages {
  RawImageRule rule;
  const std::byte* data = nullptr;  ///< RawImagesBytes
};

}  // namespace hp
