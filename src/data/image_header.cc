#include "data/image_header.h"

#include "data/big_endian.h"
#include "data/image.h"

#include <cstddef>

namespace hp {
namespace {

using std::string_view_literals::operator""sv;

constexpr size_t kPngChunks = 8, kPngWidth = 16;
constexpr size_t kPngChunkFrame = 12;  // length, name and checksum

struct FormatBegin {
  size_t at;  // its bytes lie here
  std::string_view bytes;
  std::string_view name;
};
constexpr FormatBegin kOtherFormats[] = {
    {0, "BM"sv, "BMP"sv},
    {0, "GIF8"sv, "GIF"sv},
    {0, "II*\0"sv, "TIFF"sv},
    {0, "MM\0*"sv, "TIFF"sv},
    {8, "WEBP"sv, "WebP"sv},
    {4, "ftypavif"sv, "AVIF"sv},
    {4, "ftypheic"sv, "HEIF"sv},
    {0, "\0\0\0\x0CjP  "sv, "JPEG 2000"sv},
    {0, "\xFF\x4F\xFF\x51"sv, "JPEG 2000"sv},
    {0, "v/1\x01"sv, "OpenEXR"sv},
    {0, "#?RADIANCE"sv, "Radiance HDR"sv},
    {0, "\x59\xA6\x6A\x95"sv, "Sun raster"sv},
};

// "P1" to "P7", then a blank: portable bitmaps and their like.
bool IsNetpbm(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
         (bytes[2] == '\n' || bytes[2] == ' ' || bytes[2] == '\r' || bytes[2] == '\t');
}

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

bool IsJpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }
bool IsPng(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1A\n"); }

std::string_view OtherImageFormat(std::string_view bytes) {
  for (const FormatBegin& format : kOtherFormats) {
    if (bytes.size() >= format.at && bytes.substr(format.at).starts_with(format.bytes)) return format.name;
  }
  return IsNetpbm(bytes) ? "PNM" : "";
}

std::optional<int64_t> DeclaredPixels(std::string_view bytes) {
  if (IsJpeg(bytes)) return JpegPixels(bytes);
  if (!IsPng(bytes) || bytes.size() < kPngWidth + 8 || bytes.substr(kPngChunks + 4, 4) != "IHDR") return std::nullopt;
  // Each has 31 bits for libpng, so that the product fits.
  return (Big32(bytes, kPngWidth) & INT32_MAX) * (Big32(bytes, kPngWidth + 4) & INT32_MAX);
}

bool PngChunksFit(std::string_view bytes) {
  for (size_t at = kPngChunks; at + kPngChunkFrame <= bytes.size();) {
    const auto length = static_cast<uint32_t>(Big32(bytes, at));
    if (length > bytes.size() - at - kPngChunkFrame) return false;
    if (bytes.substr(at + 4, 4) == "IEND") return true;
    at += length + kPngChunkFrame;
  }
  return false;
}

Status CheckDeclaredPixels(int64_t pixels, size_t bytes) {
  if (pixels <= kMaxImagePixels) return OkStatus();
  return DataLoss("the image has %lld pixels by its header, %zu bytes; at most %lld are decoded",
                  static_cast<long long>(pixels), bytes, static_cast<long long>(kMaxImagePixels));
}

}  // namespace hp
