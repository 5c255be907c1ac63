// A file of tensors; what was accepted is read, written and read again.
#include "checkpoint/safetensors.h"

#include "test/fuzz/fuzz.h"

#include <cstring>

using namespace hp;

namespace {

bool SameBits(const Blob& a, const Blob& b) {
  return a.shape == b.shape && a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(float)) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  static const std::string written = "/dev/shm/hp_fuzz_safetensors." + std::to_string(getpid());
  file.Write({reinterpret_cast<const char*>(data), size});
  const auto tensors = SafetensorsFile::Open(file.path());
  if (!tensors.ok()) return 0;
  std::map<std::string, Blob> blobs;
  for (const auto& [name, entry] : (*tensors)->entries()) {
    auto blob = (*tensors)->Read(name);
    if (!blob.ok()) continue;
    fuzz::Expect(blob->shape.count() == static_cast<int64_t>(blob->data.size()));
    fuzz::Expect(blob->data.size() * 2 <= size);
    blobs.emplace(name, *std::move(blob));
  }
  if (!WriteSafetensors(written, blobs).ok()) return 0;  // a name that is no text
  const auto again = SafetensorsFile::Open(written);
  fuzz::Expect(again.ok() && (*again)->entries().size() == blobs.size());
  for (const auto& [name, blob] : blobs) fuzz::Expect(SameBits(*(*again)->Read(name), blob));
  unlink(written.c_str());
  return 0;
}
