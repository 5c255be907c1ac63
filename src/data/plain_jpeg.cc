// Stricter than libjpeg, which reads on over bytes between segments: whatever is unusual is no plain JPEG.
#include "data/plain_jpeg.h"

#include "data/big_endian.h"
#include "data/image_exif.h"
#include "data/image_header.h"

#include <cstddef>
#include <cstdint>

namespace hp {
namespace {

using std::string_view_literals::operator""sv;

constexpr uint8_t kBaseline = 0xC0, kProgressive = 0xC2, kHuffmanTables = 0xC4;
constexpr uint8_t kLastFrame = 0xCF;  // C0 to CF are frames of all kinds, but for Huffman tables
constexpr uint8_t kScan = 0xDA, kExif = 0xE1, kAdobe = 0xEE;
constexpr size_t kAdobeTransform = 11, kAdobeYCbCr = 1;  // where a segment of Adobe's says the colors, and which
constexpr size_t kFrameBytes = 15;                       // of a frame's header with three channels

/// Restarts, begin and end of an image, and bytes that fill up.
bool HasNoLength(uint8_t marker) { return (marker >= 0xD0 && marker <= 0xD9) || marker == 0xFF; }

/// @param frame precision, height, width and number of channels, then of each its name, sampling and table.
std::optional<ImageSize> PlainFrame(std::string_view frame) {
  if (frame.size() != kFrameBytes || Byte(frame, 0) != 8 || Byte(frame, 5) != 3) return std::nullopt;
  for (size_t c = 0; c < 3; ++c) {
    const uint8_t name = Byte(frame, 6 + 3 * c), sampling = Byte(frame, 7 + 3 * c);
    const bool first = sampling == 0x11 || sampling == 0x21 || sampling == 0x12 || sampling == 0x22;
    if (name != c + 1 || (c == 0 ? !first : sampling != 0x11)) return std::nullopt;
  }
  const ImageSize size{static_cast<int>(Big16(frame, 1)), static_cast<int>(Big16(frame, 3))};
  if (size.height == 0 || size.width == 0) return std::nullopt;
  return size;
}

}  // namespace

std::optional<ImageSize> PlainJpegSize(std::string_view bytes) {
  if (!IsJpeg(bytes) || !bytes.ends_with("\xFF\xD9"sv)) return std::nullopt;
  std::optional<ImageSize> size;
  bool exif = false;
  for (size_t at = 2; at + 4 <= bytes.size();) {
    const uint8_t marker = Byte(bytes, at + 1);
    if (Byte(bytes, at) != 0xFF || marker < kBaseline || HasNoLength(marker)) return std::nullopt;
    if (marker == kScan) return size;
    const auto length = static_cast<size_t>(Big16(bytes, at + 2));
    if (length < 2 || length > bytes.size() - at - 2) return std::nullopt;
    const std::string_view segment = bytes.substr(at + 4, length - 2);
    if (marker <= kLastFrame && marker != kHuffmanTables) {
      if (size || (marker != kBaseline && marker != kProgressive)) return std::nullopt;
      size = PlainFrame(segment);
      if (!size) return std::nullopt;
    } else if (marker == kAdobe && segment.starts_with("Adobe"sv)) {
      if (segment.size() <= kAdobeTransform || Byte(segment, kAdobeTransform) != kAdobeYCbCr) return std::nullopt;
    } else if (marker == kExif && !exif) {  // the first alone counts, as for DecodeImage
      exif = true;
      if (segment.size() > kExifPrefix && ExifOrientation(segment.substr(kExifPrefix)).value_or(1) != 1) {
        return std::nullopt;
      }
    }
    at += 2 + length;
  }
  return std::nullopt;
}

}  // namespace hp
