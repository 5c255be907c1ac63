// A JPEG or PNG record, whole and in part. Large images only cost time, and other formats are not read.
#include "data/image.h"

#include "data/image_header.h"
#include "data/plain_jpeg.h"
#include "proto/caffe.pb.h"
#include "test/fuzz/fuzz.h"

using namespace hp;

namespace {

constexpr int64_t kMaxPixels = 1 << 16;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto pixels = DeclaredPixels({reinterpret_cast<const char*>(data), size});
  if (!pixels || *pixels > kMaxPixels) return 0;
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(data, size);
  const ImageColor color = size % 3 == 0   ? ImageColor::kAsStored
                           : size % 3 == 1 ? ImageColor::kColor
                                           : ImageColor::kGray;
  const std::string bytes = datum.data();
  const bool decoded = DecodeDatum(color, &datum).ok();
  // Any part, by what the input says.
  const auto draw = [&](int index, int below) { return below > 1 ? data[size / 2 + index] % below : 0; };
  const auto part = DecodeImagePart(bytes, color, [&](int height, int width) {
    const int top = draw(0, height), left = draw(1, width);
    return ImagePart{top, left, 1 + draw(2, height - top), 1 + draw(3, width - left)};
  });
  if (part.ok()) {
    const Image& image = part->image;
    fuzz::Expect(image.pixels.size() == static_cast<size_t>(image.channels) * image.height * image.width);
    fuzz::Expect(part->top + image.height <= part->height && part->left + image.width <= part->width);
  }
  const auto plain = PlainJpegSize(bytes);
  if (plain && part.ok()) fuzz::Expect(part->height == plain->height && part->width == plain->width);
  if (!decoded) return 0;
  fuzz::Expect(part.ok());
  fuzz::Expect(datum.data().size() == static_cast<size_t>(datum.channels()) * datum.height() * datum.width());
  return 0;
}
