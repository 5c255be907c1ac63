#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "solvers/exchange/exchange.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace hp {

/// The collectives of replicas whose devices are GPUs, as much of NCCL as we call. Tests have one without GPUs.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Puts a sum over all replicas, in place, into Device::kExchange. All replicas in the same order; one thread.
  virtual Status AllReduce(std::span<float> values) = 0;
  /// An error of what was put there earlier. Any thread.
  virtual Status AsyncError() = 0;
  /// Ends what is under way: its results are undefined, but nothing waits for it any more. Any thread, also while
  /// another is in AllReduce.
  virtual void Abort() = 0;
};

/// An exchange among replicas on GPUs, layer by layer beside the backward pass: gradients are summed in the device's
/// memory, and Finish waits for nothing: what is put into Device::kCompute after it sees the sums.
class CollectiveExchange : public Exchange {
 public:
  /// @param on_failure called once, on a thread of the exchange or in Add, with the first failure of a collective.
  CollectiveExchange(Device* device, std::unique_ptr<Collectives> collectives,
                     std::function<void(const Status&)> on_failure);
  ~CollectiveExchange() override;

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  void FinishAsync(uint64_t clock, std::function<void(const Status&)> done) override HP_EXCLUDES(mutex_);
  void Abort(const Status& cause) override HP_EXCLUDES(mutex_);

 private:
  /// A collective that lost a replica says so only when it is asked.
  void Watch();
  void Fail(const Status& status);
  /// @return whether it was the first.
  bool SetStatus(const Status& status) HP_EXCLUDES(mutex_);
  Status status() const HP_EXCLUDES(mutex_);

  Device* const device_;
  const std::unique_ptr<Collectives> collectives_;
  const std::function<void(const Status&)> on_failure_;

  mutable Mutex mutex_;
  CondVar changed_;
  Status status_ HP_GUARDED_BY(mutex_);  // the first failure ends the exchange
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
