#pragma once

#include "tensor/buffer.h"

#include <cstddef>
#include <span>

namespace hp {

/// The memory of a node's solvers: the context of one micro-batch each, with the activations and gradients of the
/// node's layers. One arena, so that it is registered with a transport once. Which solver works for which message is
/// the pipeline's business.
class SolverPool {
 public:
  SolverPool(int size, size_t bytes_each)
      : size_(size), stride_((bytes_each + 4095) / 4096 * 4096), memory_(stride_ * size) {}

  int size() const { return size_; }
  std::byte* arena(int solver) const { return memory_.data() + stride_ * solver; }
  std::span<std::byte> memory() const { return memory_.span(); }

 private:
  const int size_;
  const size_t stride_;
  const Buffer memory_;
};

}  // namespace hp
