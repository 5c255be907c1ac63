// The file of a database's index, behind a checksum that is right.
#include "data/index.h"
#include "test/fuzz/fuzz.h"

#include <xxhash.h>

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  const uint64_t hash = XXH3_64bits(file.data(), file.size());
  file.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  RecordIndex index;
  if (!DecodeIndex(file, "identity", &index)) return 0;
  size_t bytes = 0;
  for (int64_t i = 0; i < index.size(); ++i) {
    bytes += index.key(i).size();
    if (index.has_values()) bytes += index.value(i).bytes & 1;
  }
  fuzz::Expect(bytes <= 2 * size);
  fuzz::Expect(EncodeIndex("identity", index) == file);
  return 0;
}
