#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "solvers/exchange/exchange.h"
#include "tensor/buffer.h"
#include "tensor/device.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>

namespace hp {

/// An exchange of gradients in a device's memory through host memory, for stages whose replicas are not all on GPUs:
/// each gradient is copied to the host as soon as it is final, summed by another ("inner") exchange, and copied back.
/// The copies are enqueued into Device::kExchange, beside the backward pass; the thread "staging" waits for them.
/// on_exchanged comes from that thread; on_failure from it, from within Add, or from the inner exchange's thread.
///
/// Keeps a host copy of every gradient that was ever added, so that a parameter's buffer is allocated once.
class StagedExchange : public Exchange {
 public:
  /// Makes the inner exchange, which sums in host memory and reports by `callbacks`.
  using MakeInner = std::function<StatusOr<std::unique_ptr<Exchange>>(Callbacks callbacks)>;

  /// Blocks as long as `make_inner` does. @param device must outlive the exchange.
  /// @return the error of `make_inner`.
  static StatusOr<std::unique_ptr<Exchange>> Create(Device* device, const MakeInner& make_inner, Callbacks callbacks);
  ~StagedExchange() override;

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  void Flush(uint64_t clock) override HP_EXCLUDES(mutex_);
  void Abort(const Status& cause) override { End(cause); }

 private:
  /// A parameter's gradient on both sides.
  struct Copy {
    std::span<float> gradient;  // in the device's memory
    Buffer host;                // of the same size
    std::span<float> host_values() const { return {host.floats(), gradient.size()}; }
  };
  /// What the staging thread does when a copy is done: add to the inner exchange, flush it, or report the sum.
  struct Step {
    enum Kind { kGive, kFlush, kReport } kind = kFlush;
    uint64_t clock = 0;
    int param = 0;
    Device::Mark copied = 0;  ///< not of kFlush
    std::span<float> host_values = {};
  };

  StagedExchange(Device* device, Callbacks callbacks) : device_(device), callbacks_(std::move(callbacks)) {}
  Status CopyOut(uint64_t clock, int param, std::span<float> gradient) HP_EXCLUDES(mutex_);
  /// Thread of the inner exchange.
  void CopyBack(uint64_t clock, int param) HP_EXCLUDES(mutex_);
  void Run() HP_EXCLUDES(mutex_);
  Status Carry(const Step& step) HP_EXCLUDES(mutex_);
  void Fail(const Status& status);
  /// The first cause ends the exchange. @return whether it is the first.
  bool End(const Status& cause) HP_EXCLUDES(mutex_);

  Device* const device_;
  const Callbacks callbacks_;
  std::unique_ptr<Exchange> inner_;

  Mutex mutex_;  // held while kExchange is fed: two threads feed it, and steps_ must be in the order of its marks
  CondVar changed_;
  std::map<int, Copy> copies_ HP_GUARDED_BY(mutex_);  // by parameter
  std::deque<Step> steps_ HP_GUARDED_BY(mutex_);
  Status status_ HP_GUARDED_BY(mutex_);  // not ok: why it has ended
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
