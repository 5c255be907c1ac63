#include "backend/op.h"

#include "glog/logging.h"

namespace hp {

void Op::BeginParamsRows(const OpArgs&) { LOG(FATAL) << "this op has no row gradients"; }

void Op::BackwardParamsRows(const OpArgs&, int64_t, int64_t, float*, float*) const {
  LOG(FATAL) << "this op has no row gradients";
}

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
