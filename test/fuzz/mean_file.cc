// A mean image of compute_image_mean's, or of Caffe's.
#include "data/transformer.h"
#include "test/fuzz/fuzz.h"

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.Write({reinterpret_cast<const char*>(data), size});
  const auto mean = ReadMeanFile(file.path());
  if (!mean.ok()) return 0;
  fuzz::Expect(mean->shape.rank() == 3 && mean->shape.count() == static_cast<int64_t>(mean->data.size()));
  for (const int64_t dim : mean->shape.dims()) fuzz::Expect(dim > 0);
  return 0;
}
