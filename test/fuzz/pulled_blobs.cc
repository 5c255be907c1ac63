// Chunks of the weights, as a reader gets them from a first node that lies: two bytes of length before each.
#include "snapshot/pulled_blobs.h"

#include "proto/parse.h"
#include "proto/wire.pb.h"
#include "test/fuzz/fuzz.h"

#include <string_view>

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMost = 4096;
  PulledBlobs blobs(kMost);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() > 2) {
    const size_t length = static_cast<uint8_t>(rest[0]) | static_cast<uint8_t>(rest[1]) << 8;
    const std::string_view bytes = rest.substr(2, length);
    rest.remove_prefix(2 + bytes.size());
    PullChunk chunk;
    if (!ParseMessage(bytes, &chunk) || !blobs.Take(chunk).ok()) return 0;  // the reader ends here
  }
  const auto whole = blobs.Finish();
  if (!whole.ok()) return 0;
  int64_t taken = 0;
  for (const auto& [key, blob] : *whole) {
    fuzz::Expect(blob.shape.count() == static_cast<int64_t>(blob.data.size()));
    taken += blob.data.size() * sizeof(float);
  }
  fuzz::Expect(taken <= kMost);
  return 0;
}
