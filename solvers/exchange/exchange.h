#pragma once

#include "hp/status.h"

#include <cstdint>
#include <functional>
#include <span>

namespace hp {

/// How the replicas of a data-parallel stage agree on the gradients of an update: sums over all replicas, in place,
/// with the same bits on each of them. Work starts at Add, while the backward pass goes on.
///
/// Use, on the executor thread, alike on all replicas:
///   exchange->Add(t, 7, gradient_of_7);   // final in the last micro-batch's backward; not touched until Finish
///   exchange->Add(t, 6, gradient_of_6);
///   status = exchange->Finish(t);         // all of them are sums now
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Gives parameter `param` of update `clock` to the exchange, once for each update, in one order that the net fixes
  /// and that is the same on all replicas. `gradient` belongs to the exchange until `clock` is finished. Never blocks.
  virtual void Add(uint64_t clock, int param, std::span<float> gradient) = 0;
  /// Says that all parameters of `clock` were added. `done` is called once, when all are sums (ok) or will never be
  /// (kUnavailable: a replica is lost; kCancelled or the cause: Abort); on a thread of the exchange, or on the
  /// caller's. It must not block. Clocks are finished in order.
  virtual void FinishAsync(uint64_t clock, std::function<void(const Status&)> done) = 0;
  /// FinishAsync that waits.
  Status Finish(uint64_t clock);
  /// Ends what is under way and makes every other call return at once with `cause`. Any thread.
  virtual void Abort(const Status& cause) = 0;
};

}  // namespace hp
