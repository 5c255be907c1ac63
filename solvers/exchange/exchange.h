#pragma once

#include "hp/status.h"

#include <cstdint>
#include <functional>
#include <span>

namespace hp {

/// How the replicas of a data-parallel stage agree on the gradients of an update: sums over all replicas, in place,
/// with the same bits on each of them. Work starts at Add, while the backward pass goes on, and nothing here waits for
/// another replica but the exchange's own threads: that a sum is there is an event (Callbacks::on_exchanged).
///
/// Use, on the executor thread, alike on all replicas:
///   exchange->Add(t, 7, gradient_of_7);   // final in the last micro-batch's backward
///   exchange->Add(t, 6, gradient_of_6);
///   exchange->Flush(t);                   // these were all; on_exchanged(t, 7) and (t, 6) follow, or on_failure
///
/// Owned by the node. Its destructor ends what is under way, as Abort does, and waits until no callback runs any more:
/// whom the callbacks call must outlive it.
class Exchange {
 public:
  /// How an exchange reports, given when it is made; neither is null. Both are called on a thread of the exchange (a
  /// failure also in Add), under none of its locks, and must not block.
  struct Callbacks {
    /// The gradient of `param` that was added for `clock` is the sum, and is the caller's again; on a device, for all
    /// work that is put into its queues from now on. Once for each Add, in no promised order; never after a failure.
    std::function<void(uint64_t clock, int param)> on_exchanged;
    /// Once, with the first failure: kUnavailable: a collective failed, most likely because a replica is lost;
    /// kInternal: the device failed; kResourceExhausted: no memory. Nothing is exchanged any more. Not after Abort.
    std::function<void(const Status&)> on_failure;
  };

  virtual ~Exchange() = default;

  /// Gives parameter `param` of update `clock` to the exchange, once for each update, in one order that the net fixes
  /// and that is the same on all replicas. `gradient` belongs to the exchange until on_exchanged. Never blocks; does
  /// nothing after a failure. One thread at a time.
  virtual void Add(uint64_t clock, int param, std::span<float> gradient) = 0;
  /// Says that all parameters of `clock` were added: what was held back to be summed together with later ones goes out
  /// now. After the clock's last Add, on its thread; clocks in order. Never blocks.
  virtual void Flush(uint64_t clock) = 0;
  /// Ends what is under way: no sum of it can be relied on. Any thread, also in a callback; callbacks that run already
  /// may still be running when it returns.
  virtual void Abort(const Status& cause) = 0;
};

}  // namespace hp
