#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace hp {

/// A run of memory that is given back on destruction: the host's, or a device's (tensor/device.h).
class Buffer {
 public:
  using Release = std::function<void(std::byte* data, size_t bytes)>;

  Buffer() = default;
  /// Zeroed host memory, aligned to 64 bytes (2 MiB and with huge pages advised when it is large). Aborts the process
  /// when the host has no memory left: sizes are checked against the table before this is reached.
  explicit Buffer(size_t bytes);
  /// Memory from elsewhere; `release` gives it back.
  Buffer(std::byte* data, size_t bytes, Release release) : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

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
