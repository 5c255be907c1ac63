#pragma once

#include "hp/status.h"
#include "tensor/buffer.h"
#include "tensor/device.h"

#include <cstddef>
#include <span>
#include <utility>

namespace hp {

/// The memory of a node's solvers, on its device: the context of one micro-batch each, with the activations and
/// gradients of the node's layers. One arena, so that it is registered with a transport once. Which solver works for
/// which message is the pipeline's business.
class SolverPool {
 public:
  /// @return kResourceExhausted: the device has not so much memory free.
  static StatusOr<SolverPool> Create(Device* device, int size, size_t bytes_each) {
    const size_t stride = (bytes_each + 4095) / 4096 * 4096;
    HP_ASSIGN_OR_RETURN(Buffer memory, device->AllocateShared(stride * size));
    return SolverPool(size, stride, std::move(memory));
  }

  int size() const { return size_; }
  std::byte* arena(int solver) const { return memory_.data() + stride_ * solver; }
  std::span<std::byte> memory() const { return memory_.span(); }

 private:
  SolverPool(int size, size_t stride, Buffer memory) : size_(size), stride_(stride), memory_(std::move(memory)) {}

  int size_;
  size_t stride_;
  Buffer memory_;
};

}  // namespace hp
