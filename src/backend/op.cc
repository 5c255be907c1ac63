#include "backend/op.h"

#include "glog/logging.h"

#include <new>

namespace hp {

void Op::BeginParamsRows(const OpArgs&) { LOG(FATAL) << "this op has no row gradients"; }

void Op::BackwardParamsRows(const OpArgs&, int64_t, int64_t, float*, float*) const {
  LOG(FATAL) << "this op has no row gradients";
}

std::byte* PackedParams::Get(const std::string& key, size_t bytes, uint64_t version, Fill fill, FillRows fill_rows) {
  Copy& copy = copies_[key];
  if (copy.buffer.bytes() == bytes && copy.version == version) return copy.buffer.data();
  if (copy.buffer.bytes() != bytes) {
    StatusOr<Buffer> buffer = device_ == nullptr ? Buffer::Allocate(bytes) : device_->Allocate(bytes);
    if (!buffer.ok()) {
      LOG(ERROR) << "cannot allocate a copy of a parameter: " << buffer.status();
      throw std::bad_alloc();
    }
    copy.buffer = *std::move(buffer);
  }
  copy.fill = std::move(fill);
  copy.fill_rows = std::move(fill_rows);
  copy.fill(copy.buffer.data());
  copy.version = version;
  return copy.buffer.data();
}

void PackedParams::Refresh(uint64_t version) {
  for (auto& [key, copy] : copies_) {
    if (copy.version == version) continue;
    copy.fill(copy.buffer.data());
    copy.version = version;
  }
}

void PackedParams::RefillRows(int64_t begin, int64_t end) const {
  for (const auto& [key, copy] : copies_) {
    if (copy.fill_rows) copy.fill_rows(copy.buffer.data(), begin, end);
  }
}

void PackedParams::MarkRefilled(uint64_t version) {
  for (auto& [key, copy] : copies_) {
    if (copy.fill_rows) copy.version = version;
  }
}

size_t PackedParams::bytes() const {
  size_t bytes = 0;
  for (const auto& [key, copy] : copies_) bytes += copy.buffer.bytes();
  return bytes;
}

}  // namespace hp
