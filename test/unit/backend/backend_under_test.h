#pragma once

#include "backend/backend.h"
#include "tensor/device.h"

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

namespace hp::test {

/// The backend whose ops a test program runs: that of the file it is linked with, cpu_under_test.cc,
/// fake_gpu_under_test.cc or real_gpu_under_test.cc. So the same tests hold all backends to the same numbers.
struct BackendUnderTest {
  std::unique_ptr<Device> device;
  std::unique_ptr<Backend> backend;
  bool blocked_layouts = false;  ///< takes channels in blocks of 8 and 16, beside dense and NHWC
  bool waits = false;            ///< surely does nothing before somebody waits for it
  /// Memory that test and device both reach, at the same addresses.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
};

BackendUnderTest& UnderTest();

/// For what a test and the device under test both read and write. All are alike.
template <typename T>
struct ReachableAllocator {
  using value_type = T;
  ReachableAllocator() = default;
  template <typename U>
  ReachableAllocator(const ReachableAllocator<U>&) {}  // NOLINT: converts, as allocators do

  T* allocate(size_t n) { return static_cast<T*>(UnderTest().memory->allocate(n * sizeof(T), kAlignment)); }
  void deallocate(T* data, size_t n) { UnderTest().memory->deallocate(data, n * sizeof(T), kAlignment); }
  bool operator==(const ReachableAllocator&) const = default;

  static constexpr size_t kAlignment = 64;
};
template <typename T>
using ReachableVector = std::vector<T, ReachableAllocator<T>>;

}  // namespace hp::test
