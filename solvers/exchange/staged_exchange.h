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
#include <vector>

namespace hp {

/// An exchange of gradients in a device's memory by way of the host's, for replicas that do not all have such a device:
/// each gradient is copied out as soon as it is final, summed by `inner`, and copied back. Copies go by
/// Device::kExchange, beside the backward pass; a thread "staging" waits for them.
class StagedExchange : public Exchange {
 public:
  /// `device` must outlive it.
  StagedExchange(Device* device, std::unique_ptr<Exchange> inner);
  ~StagedExchange() override;

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  /// When `done` is called, whatever is put into Device::kCompute from then on sees the sums. @return also kInternal
  /// and kResourceExhausted: the device failed, or the host has no memory for the copies.
  void FinishAsync(uint64_t clock, std::function<void(const Status&)> done) override HP_EXCLUDES(mutex_);
  void Abort(const Status& cause) override;

 private:
  /// A gradient under way to the host, or, with `done`, the end of a clock.
  struct Step {
    uint64_t clock = 0;
    int param = 0;
    std::span<float> gradient, host_copy;
    Device::Mark copied = 0;
    std::function<void(const Status&)> done;
  };

  StatusOr<std::span<float>> HostCopyOf(int param, size_t count);
  void Push(Step step) HP_EXCLUDES(mutex_);
  void Run() HP_EXCLUDES(mutex_);
  void Process(const Step& step);
  Status SumAll(uint64_t clock);

  Device* const device_;
  const std::unique_ptr<Exchange> inner_;
  std::map<int, Buffer> host_copies_;  // by parameter; the thread that calls Add
  Status failure_;                     // of the clock under way; staging thread
  std::vector<Step> added_;            // in it

  Mutex mutex_;
  CondVar changed_;
  std::deque<Step> steps_ HP_GUARDED_BY(mutex_);
  Status allocation_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
