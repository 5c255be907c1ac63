#pragma once

#include "hp/status.h"
#include "tensor/buffer.h"
#include "tensor/device.h"

#include <cstddef>
#include <span>
#include <utility>

namespace hp {

/// The memory of a node's solvers, on its device. A solver is the context of one micro-batch: the activations and
/// gradients of the node's layers. All solvers lie in one allocation, so that it is registered with the transport once,
/// and as many micro-batches can be under way at once as there are solvers. Which solver holds which micro-batch is
/// decided by the Pipeline; what lies where in a solver by NodeNet. Immutable; any thread.
class SolverPool {
 public:
  /// Allocates the pool, zeroed.
  /// @param device must outlive the pool.
  /// @param size number of solvers, at least 1.
  /// @param bytes_each NodeNet::arena_bytes() of the largest net; rounded up to 4096.
  /// @return kResourceExhausted: out of memory on the device.
  static StatusOr<SolverPool> Create(Device* device, int size, size_t bytes_each) {
    const size_t stride = (bytes_each + 4095) / 4096 * 4096;
    HP_ASSIGN_OR_RETURN(Buffer memory, device->AllocateShared(stride * size));
    return SolverPool(size, stride, std::move(memory));
  }

  /// Number of solvers.
  int size() const { return size_; }
  /// First byte of solver `solver` (0 to size() - 1), in the device's memory, at a multiple of 4096 bytes from the
  /// first.
  std::byte* arena(int solver) const { return memory_.data() + stride_ * solver; }
  /// All solvers' memory, to register with a transport.
  std::span<std::byte> memory() const { return memory_.span(); }

 private:
  SolverPool(int size, size_t stride, Buffer memory) : size_(size), stride_(stride), memory_(std::move(memory)) {}

  int size_;
  size_t stride_;  // bytes from one solver to the next
  Buffer memory_;
};

}  // namespace hp
