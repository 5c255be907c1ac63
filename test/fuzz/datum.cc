// A record of a database on its way to a float image. The first byte chooses the options. Images are for the target
// image.
#include "data/transformer.h"
#include "proto/caffe.pb.h"
#include "test/fuzz/fuzz.h"

#include <vector>

using namespace hp;

namespace {

constexpr int64_t kMaxValues = 1 << 22;  // of an image; more only costs time

TransformOptions OptionsOf(uint8_t choice) {
  TransformOptions options;
  options.mirror = (choice & 1) != 0;
  options.crop_size = (choice & 2) != 0 ? 3 : 0;
  options.force_color = (choice & 4) != 0;
  options.force_gray = (choice & 12) == 8;
  if ((choice & 16) != 0) options.mean_value = {1, 2, 3};
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  caffe::Datum datum;
  if (!datum.ParseFromArray(data + 1, static_cast<int>(size - 1))) return 0;
  if (datum.encoded()) return 0;
  const auto transformer = Transformer::Create(OptionsOf(data[0]), (data[0] & 32) != 0, 1, "data", datum, "fuzz");
  if (!transformer.ok() || (*transformer)->output_shape().count() > kMaxValues) return 0;
  std::vector<float> image((*transformer)->output_shape().count());
  // What was taken as the first record can be transformed.
  fuzz::Expect((*transformer)->Transform(datum, 0, image.data()).ok());
  return 0;
}
