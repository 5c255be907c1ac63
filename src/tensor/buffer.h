#pragma once

#include "hp/status.h"

#include <cstddef>
#include <functional>
#include <span>

namespace hp {

/// A contiguous block of memory, the host's or a device's (Device::Allocate), that is released on destruction. Movable,
/// not copyable. Moving keeps the address, so views (Tensor, std::span) of the memory stay valid while some Buffer owns
/// it. Not synchronized: one thread at a time moves or destroys it.
class Buffer {
 public:
  /// Gives back `bytes` bytes at `data`; called once, by the thread that destroys the Buffer.
  using Release = std::function<void(std::byte* data, size_t bytes)>;

  Buffer() = default;  ///< empty: data() is null, bytes() 0
  /// Zeroed host memory, page-aligned; from 4 MiB on aligned to 2 MiB, with huge pages advised. 0 bytes: empty.
  /// @return kResourceExhausted: the system refuses it. Linux may also grant what it does not have, and end the process
  /// when it is used; so what a node needs is compared with what there is before (engine/memory_fit.h).
  static StatusOr<Buffer> Allocate(size_t bytes);
  /// Takes ownership of memory from elsewhere. @param release called with `data` and `bytes`, unless `data` is null.
  Buffer(std::byte* data, size_t bytes, Release release) : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;  ///< swaps: `other` releases what was here
  ~Buffer();

  // Constness is the handle's, not the memory's. Host code may dereference only host memory.
  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Release release_;  ///< null: host memory of our own
};

}  // namespace hp
