#include "backend/op.h"

namespace hp {

std::byte* PackedParams::Get(const std::string& key, size_t bytes, uint64_t version,
                             const std::function<void(std::byte*)>& fill) {
  Copy& copy = copies_[key];
  if (copy.buffer.bytes() == bytes && copy.version == version) return copy.buffer.data();
  if (copy.buffer.bytes() != bytes) copy.buffer = Buffer(bytes);
  fill(copy.buffer.data());
  copy.version = version;
  return copy.buffer.data();
}

}  // namespace hp
