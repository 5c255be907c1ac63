#pragma once

#include <cstddef>
#include <span>

namespace hp {

/// Zeroed host memory, aligned to 64 bytes (2 MiB and with huge pages advised when it is large); freed on destruction.
/// Aborts the process when the host has no memory left: sizes are checked against the table before this is reached.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);
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
};

}  // namespace hp
