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
  if (!Resize(&copy, bytes) && copy.version == version) return copy.buffer.data();
  copy.fill = std::move(fill);
  copy.fill_rows = std::move(fill_rows);
  copy.fill(copy.buffer.data());
  copy.version = version;
  return copy.buffer.data();
}

std::byte* PackedParams::Get(const std::string& key, size_t bytes, uint64_t version, Fill fill, const ValueCopy& form) {
  std::byte* const data = Get(key, bytes, version, std::move(fill));
  copies_[key].form = form;
  return data;
}

ValueCopy PackedParams::WrittenByUpdate(uint64_t version) {
  for (auto& [key, copy] : copies_) {
    if (!copy.form) continue;
    copy.version = version;
    ValueCopy written = *copy.form;
    written.data = copy.buffer.data();
    return written;
  }
  return {};
}

std::byte* PackedParams::Space(const std::string& key, size_t bytes) {
  Copy& space = spaces_[key];
  Resize(&space, bytes);
  return space.buffer.data();
}

bool PackedParams::Resize(Copy* copy, size_t bytes) const {
  if (copy->buffer.bytes() == bytes) return false;
  StatusOr<Buffer> buffer = device_ == nullptr ? Buffer::Allocate(bytes) : device_->Allocate(bytes);
  if (!buffer.ok()) {
    LOG(ERROR) << "cannot allocate a copy of a parameter: " << buffer.status();
    throw std::bad_alloc();
  }
  copy->buffer = *std::move(buffer);
  return true;
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
  for (const auto* kept : {&copies_, &spaces_}) {
    for (const auto& [key, copy] : *kept) bytes += copy.buffer.bytes();
  }
  return bytes;
}

}  // namespace hp
