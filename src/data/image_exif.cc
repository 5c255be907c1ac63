#include "data/image_exif.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hp {
namespace {

constexpr uint32_t kTiffMark = 42;
constexpr uint32_t kOrientationTag = 274;
constexpr uint32_t kFirstTextTag = 270, kLastTextTag = 272;  // description, maker, model: tags are in order
constexpr size_t kEntryBytes = 12;                           // tag, type, count, value
constexpr size_t kCountAt = 4, kValueAt = 8, kValueBytes = 4;

// Integers of a TIFF, in the order of bytes that its first two letters say: "II" or "MM".
class TiffBytes {
 public:
  explicit TiffBytes(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}

  bool Has(size_t at, size_t size) const { return at <= bytes_.size() && size <= bytes_.size() - at; }

  std::optional<uint32_t> Read(size_t at, size_t size) const {
    if (!Has(at, size)) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value = value << 8 | static_cast<uint8_t>(bytes_[at + (little_ ? size - 1 - i : i)]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

// A value of more than four bytes lies elsewhere.
bool IsTextOutside(const TiffBytes& bytes, uint32_t tag, size_t entry) {
  if (tag < kFirstTextTag || tag > kLastTextTag) return false;
  const auto count = bytes.Read(entry + kCountAt, 4), at = bytes.Read(entry + kValueAt, 4);
  return !count || (*count > kValueBytes && (!at || !bytes.Has(*at, *count)));
}

}  // namespace

std::optional<int> ExifOrientation(std::string_view tiff) {
  const TiffBytes bytes(tiff);
  const auto folder = bytes.Read(4, 4);
  if (bytes.Read(2, 2) != kTiffMark || !folder) return std::nullopt;
  const size_t entries = bytes.Read(*folder, 2).value_or(0);
  for (size_t i = 0; i < entries; ++i) {
    const size_t at = size_t{*folder} + 2 + i * kEntryBytes;
    const auto tag = bytes.Read(at, 2);
    if (!tag || IsTextOutside(bytes, *tag, at)) return std::nullopt;
    if (*tag == kOrientationTag) return bytes.Read(at + kValueAt, 2);
  }
  return std::nullopt;
}

Image TurnUpright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  // First the diagonal, if rows were columns; then the mirrors.
  const bool swapped = orientation >= 5;
  const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Image upright{swapped ? image.width : image.height, swapped ? image.height : image.width, image.channels, {}};
  upright.pixels.resize(image.pixels.size());
  auto to = upright.pixels.begin();
  for (int y = 0; y < upright.height; ++y) {
    const int row = mirror_y ? upright.height - 1 - y : y;
    for (int x = 0; x < upright.width; ++x) {
      const int column = mirror_x ? upright.width - 1 - x : x;
      const size_t pixel = static_cast<size_t>(swapped ? column : row) * image.width + (swapped ? row : column);
      to = std::copy_n(image.pixels.begin() + static_cast<ptrdiff_t>(pixel * image.channels), image.channels, to);
    }
  }
  return upright;
}

}  // namespace hp
