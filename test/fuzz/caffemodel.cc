// A .caffemodel.
#include "checkpoint/weights.h"
#include "test/fuzz/fuzz.h"

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.Write({reinterpret_cast<const char*>(data), size});
  const auto model = ReadCaffeModel(file.path());
  if (!model.ok()) return 0;
  for (const auto& [key, blob] : model->blobs) {
    fuzz::Expect(blob.shape.count() == static_cast<int64_t>(blob.data.size()));
  }
  return 0;
}
