#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "solvers/exchange/exchange.h"
#include "tensor/device.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hp {

/// Gradients that are summed over all replicas, in place, each by itself but all at once.
struct CollectiveSum {
  std::vector<std::span<float>> values;  ///< in the device's memory; must stay allocated until they are summed
  /// Put work into Device::kExchange in front of the sum, and behind it. They must not call the collectives.
  std::function<void()> before, after;
};

/// The collectives among replicas on GPUs: the part of NCCL's interface that the exchange uses (nccl_collectives.h).
/// Tests implement it without GPUs.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Has a sum enqueued into Device::kExchange, and returns at once. Where several replicas are in one process, the
  /// last one to call enqueues the sum for all of them; `before` and `after` are called by its thread. One thread; all
  /// replicas call it with the same sizes in the same order.
  /// @return kUnavailable: it can't be enqueued, or Abort was called; kFailedPrecondition: nor by another try.
  virtual Status AllReduce(CollectiveSum sum) = 0;
  /// @return kUnavailable: a sum that was enqueued earlier has failed, most likely because a replica is lost; ok after
  /// Abort. Any thread.
  virtual Status AsyncError() = 0;
  /// Ends the sums under way: their results are undefined, nothing waits for them any more, and neither `before` nor
  /// `after` of one is called any more. Any thread, also while another is in AllReduce. May be called again.
  virtual void Abort() = 0;
};

/// An exchange among replicas that are all on GPUs: gradients are summed in the devices' memory, some layers at a time
/// while the backward pass goes on, since a sum costs the thread that adds as much for a bias as for a layer. The Add
/// that fills a bucket of kBucketBytes, and Flush, have its sums enqueued into Device::kExchange, ordered behind what
/// kCompute holds then. The thread "exchange" waits for sums and reports them; the thread "exchange watch" asks every
/// 100 ms for errors. Callbacks come from these threads, on_failure also from within Add.
class CollectiveExchange : public Exchange {
 public:
  /// Starts the threads. @param device must outlive the exchange. @param collectives of all replicas of the stage.
  CollectiveExchange(Device* device, std::unique_ptr<Collectives> collectives, Callbacks callbacks);
  ~CollectiveExchange() override;

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  void Flush(uint64_t clock) override HP_EXCLUDES(mutex_);
  void Abort(const Status& cause) override { End(cause); }

 private:
  /// Sums under way.
  struct Step {
    Device::Mark done = 0;  // of kExchange
    uint64_t clock = 0;
    std::vector<int> params;
  };

  /// The sum was put into kExchange.
  void Enqueued(uint64_t clock, const std::vector<int>& params) HP_EXCLUDES(mutex_);
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

  // The bucket; the thread of Add and Flush.
  std::vector<int> params_;
  std::vector<std::span<float>> gradients_;
  size_t bytes_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Step> steps_ HP_GUARDED_BY(mutex_);  // not waited for yet
  Status status_ HP_GUARDED_BY(mutex_);           // not ok: why it has ended
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_, watch_;
};

}  // namespace hp
