#include "data/image_header.h"

#include <cstddef>

namespace hp {
namespace {

constexpr std::string_view kJpegBegin = "\xFF\xD8\xFF";
constexpr std::string_view kPngBegin = "\x89PNG\r\n\x1A\n";
constexpr size_t kPngWidth = 16;  // in the chunk IHDR, which is the first

uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }
int64_t Big16(std::string_view bytes, size_t at) { return Byte(bytes, at) << 8 | Byte(bytes, at + 1); }
int64_t Big32(std::string_view bytes, size_t at) { return Big16(bytes, at) << 16 | Big16(bytes, at + 2); }

// A frame's header: SOF0 to SOF15 but for DHT, JPG and DAC, which lie among them.
bool IsFrame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Goes from segment to segment up to the frame's; like libjpeg, over any bytes between them.
std::optional<int64_t> JpegPixels(std::string_view bytes) {
  size_t at = 2;
  while (at + 9 <= bytes.size()) {
    const uint8_t marker = Byte(bytes, at + 1);
    if (Byte(bytes, at) != 0xFF || marker == 0xFF || marker == 0) {
      ++at;
    } else if (IsFrame(marker)) {
      return Big16(bytes, at + 5) * Big16(bytes, at + 7);
    } else {
      const bool alone = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD9);  // without a length
      at += 2 + (alone ? 0 : static_cast<size_t>(Big16(bytes, at + 2)));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> DeclaredPixels(std::string_view bytes) {
  if (bytes.starts_with(kJpegBegin)) return JpegPixels(bytes);
  if (!bytes.starts_with(kPngBegin) || bytes.size() < kPngWidth + 8) return std::nullopt;
  // Each has 31 bits for libpng, so that the product fits.
  return (Big32(bytes, kPngWidth) & INT32_MAX) * (Big32(bytes, kPngWidth + 4) & INT32_MAX);
}

}  // namespace hp
