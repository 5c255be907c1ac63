#include "tensor/buffer.h"

#include "base/format.h"

#include <sys/mman.h>

#include <utility>

namespace hp {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMost = size_t{1} << 47;  // an address space

size_t MappedBytes(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

// Anonymous mappings come zeroed and page-aligned. Arenas of several huge pages are advised to use them: with 4 KiB
// pages a pass over AlexNet's 244 MB of parameters misses the TLB 60,000 times.
StatusOr<Buffer> Buffer::Allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > kMost) return ResourceExhausted("out of memory: cannot allocate %s", MegaBytes(bytes).c_str());
  const bool huge = bytes >= 2 * kHugePage;
  const size_t slack = huge ? kHugePage : 0;
  void* mapped = mmap(nullptr, MappedBytes(bytes) + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return ResourceExhausted("out of memory: cannot allocate %s", MegaBytes(bytes).c_str());
  auto* begin = static_cast<std::byte*>(mapped);
  const size_t skip = huge ? (kHugePage - reinterpret_cast<size_t>(begin) % kHugePage) % kHugePage : 0;
  if (skip > 0) munmap(begin, skip);
  if (slack > skip) munmap(begin + skip + MappedBytes(bytes), slack - skip);
  buffer.data_ = begin + skip;
  buffer.bytes_ = bytes;
  if (huge) madvise(buffer.data_, MappedBytes(bytes), MADV_HUGEPAGE);
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::move(other.release_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (release_) {
    release_(data_, bytes_);
  } else {
    munmap(data_, MappedBytes(bytes_));
  }
}

}  // namespace hp
