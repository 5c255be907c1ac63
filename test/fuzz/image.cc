// A JPEG or PNG record. Large images only cost time, and other formats are not read.
#include "data/image.h"

#include "data/image_header.h"
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
  if (!DecodeDatum(color, &datum).ok()) return 0;
  fuzz::Expect(datum.data().size() == static_cast<size_t>(datum.channels()) * datum.height() * datum.width());
  return 0;
}
