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

/// An exchange of gradients in a device's memory by way of the host's, for replicas that do not all have such a device:
/// each gradient is copied out as soon as it is final, summed by another exchange, and copied back. Copies go by
/// Device::kExchange, beside the backward pass; a thread "staging" waits for them. Callbacks come from there, failures
/// also from Add and from the other exchange's thread.
class StagedExchange : public Exchange {
 public:
  /// Makes the exchange that sums in the host's memory, with these callbacks.
  using MakeInner = std::function<StatusOr<std::unique_ptr<Exchange>>(Callbacks callbacks)>;

  /// Blocks as long as `make_inner` does. @param device must outlive it. @return what `make_inner` says.
  static StatusOr<std::unique_ptr<Exchange>> Create(Device* device, const MakeInner& make_inner, Callbacks callbacks);
  ~StagedExchange() override;

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  void Flush(uint64_t clock) override HP_EXCLUDES(mutex_);
  void Abort(const Status& cause) override { End(cause); }

 private:
  /// Where a parameter's gradient is on both sides.
  struct Copy {
    std::span<float> gradient;
    Buffer host;
    std::span<float> host_values() const { return {host.floats(), gradient.size()}; }
  };
  /// What the staging thread does, once a copy is done.
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

  Mutex mutex_;  // held while kExchange is fed: two threads do, and steps_ are in the order of its marks
  CondVar changed_;
  std::map<int, Copy> copies_ HP_GUARDED_BY(mutex_);  // by parameter
  std::deque<Step> steps_ HP_GUARDED_BY(mutex_);
  Status status_ HP_GUARDED_BY(mutex_);  // why it has ended
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
