#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "solvers/exchange/exchange.h"
#include "tensor/device.h"

#include <cstdint>
#include <deque>
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

/// An exchange among replicas on GPUs: gradients are summed in the device's memory, layer by layer beside the backward
/// pass. Add only puts work into Device::kExchange, ordered behind what kCompute holds; a thread "exchange" waits for
/// it and reports, and a thread "exchange watch" asks for errors. Callbacks come from these, failures also from Add.
class CollectiveExchange : public Exchange {
 public:
  /// @param device must outlive it.
  CollectiveExchange(Device* device, std::unique_ptr<Collectives> collectives, Callbacks callbacks);
  ~CollectiveExchange() override;

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  /// Nothing is held back.
  void Flush(uint64_t /*clock*/) override {}
  void Abort(const Status& cause) override { End(cause); }

 private:
  /// A sum under way.
  struct Step {
    Device::Mark done = 0;
    uint64_t clock = 0;
    int param = 0;
  };

  void Run() HP_EXCLUDES(mutex_);
  Status Await(const Step& step);
  void Watch() HP_EXCLUDES(mutex_);
  void Fail(const Status& status);
  /// The first cause ends the exchange. @return whether it is the first.
  bool End(const Status& cause) HP_EXCLUDES(mutex_);
  bool ended() const HP_EXCLUDES(mutex_);

  Device* const device_;
  const std::unique_ptr<Collectives> collectives_;
  const Callbacks callbacks_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Step> steps_ HP_GUARDED_BY(mutex_);
  Status status_ HP_GUARDED_BY(mutex_);  // why it has ended
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_, watch_;
};

}  // namespace hp
