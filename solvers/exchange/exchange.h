#pragma once

#include "hp/status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace hp {

/// Sums the gradients of an update over the replicas of a data-parallel stage: an allreduce, in place, with the same
/// bits on every replica. Work starts at Add, while the backward pass goes on. Only the exchange's own threads wait for
/// other replicas; a finished sum is reported by Callbacks::on_exchanged.
///
/// Use, on the executor thread, in the same order on all replicas:
///   exchange->Add(t, 7, gradient_of_7);   // final in the last micro-batch's backward
///   exchange->Add(t, 6, gradient_of_6);
///   exchange->Flush(t);                   // these were all; on_exchanged(t, 7) and (t, 6) follow, or on_failure
///
/// Owned by the node. The destructor ends what is under way, as Abort does, and waits until no callback runs any more,
/// so everything that the callbacks use must outlive the exchange.
class Exchange {
 public:
  /// Gradients may be held back until they are so many bytes together, counted from the one that began to wait: one sum
  /// of them costs less than a sum of each.
  static constexpr size_t kBucketBytes = size_t{4} << 20;

  /// How an exchange reports; given when it is made, neither may be null. Called on a thread of the exchange
  /// (on_failure also from within Add), under none of its locks. Must not block.
  struct Callbacks {
    /// The gradient of `param` that was added for `clock` holds the sum and belongs to the caller again. On a device
    /// that is true for work that is enqueued from now on. Once for each Add, in any order; not after a failure.
    std::function<void(uint64_t clock, int param)> on_exchanged;
    /// The exchange has ended, and nothing is summed any more. At most once, with the first failure; not after Abort.
    /// kUnavailable: a collective failed, most likely because a replica is lost; kInternal: the device failed;
    /// kResourceExhausted: out of memory.
    std::function<void(const Status&)> on_failure;
  };

  virtual ~Exchange() = default;

  /// Starts the sum of one gradient. Never blocks; does nothing after a failure. One thread at a time, and all replicas
  /// must add the same parameters with the same sizes in the same order, each once for each clock.
  /// @param clock the update; its Adds come before those of the next clock.
  /// @param param the caller's number of the parameter, handed back in on_exchanged.
  /// @param gradient float32, this replica's part of the gradient. Final when it is added; on a device, when the work
  /// that Device::kCompute holds by then is done. Belongs to the exchange until on_exchanged, or until the exchange is
  /// destroyed.
  virtual void Add(uint64_t clock, int param, std::span<float> gradient) = 0;
  /// Ends the Adds of `clock`: sums that were held back, to be combined with later ones, start now. Once for each
  /// clock, after its last Add, on the same thread. Never blocks.
  virtual void Flush(uint64_t clock) = 0;
  /// Ends the exchange: what is under way gives no sum. Any thread, also from within a callback; a callback that runs
  /// already may still be running when it returns. Later calls have no effect.
  virtual void Abort(const Status& cause) = 0;
};

}  // namespace hp
