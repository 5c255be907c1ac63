#pragma once

#include "hp/status.h"
#include "tensor/buffer.h"
#include "tensor/device.h"

#include <cstddef>
#include <span>
#include <utility>

namespace hp {

/// The memory of a node's solvers, on its device. A solver is the context of one micro-batch: the activations and
/// gradients of the node's layers in its arena, and its ports, which peers write into and read from. The ports of all
/// solvers lie in one allocation, so that it is registered with the transport once; as many micro-batches can be under
/// way at once as there are solvers. Which solver holds which micro-batch is decided by the Pipeline; what lies where
/// in a solver by NodeNet. Immutable; any thread.
class SolverPool {
 public:
  /// Allocates the pool, zeroed.
  /// @param device must outlive the pool.
  /// @param size number of solvers, at least 1.
  /// @param arena_bytes,port_bytes of each solver: those of the largest net; rounded up to 4096.
  /// @return kResourceExhausted: out of memory on the device.
  static StatusOr<SolverPool> Create(Device* device, int size, size_t arena_bytes, size_t port_bytes) {
    SolverPool pool(size, Rounded(arena_bytes), Rounded(port_bytes));
    HP_ASSIGN_OR_RETURN(pool.arenas_, device->Allocate(pool.arena_bytes_ * size));
    HP_ASSIGN_OR_RETURN(pool.ports_, device->AllocateShared(pool.port_bytes_ * size));
    return pool;
  }

  /// Number of solvers.
  int size() const { return size_; }
  // First bytes of solver `solver` (0 to size() - 1), in the device's memory, at a multiple of 4096 bytes from those of
  // the first.
  std::byte* arena(int solver) const { return arenas_.data() + arena_bytes_ * solver; }
  std::byte* ports(int solver) const { return ports_.data() + port_bytes_ * solver; }
  /// Those of all solvers, to register with a transport; empty: nothing crosses to other nodes.
  std::span<std::byte> all_ports() const { return ports_.span(); }

 private:
  SolverPool(int size, size_t arena_bytes, size_t port_bytes)
      : size_(size), arena_bytes_(arena_bytes), port_bytes_(port_bytes) {}
  static size_t Rounded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  int size_;
  size_t arena_bytes_, port_bytes_;
  Buffer arenas_, ports_;
};

}  // namespace hp
