// Sums by collectives that the device carries out. A sum waits for the gradient by the order of the device's queues
// (kExchange behind kCompute), so that nobody on the host does. The other direction goes by way of the host: when the
// sum's mark is reached the update becomes ready and is put into kCompute. Ordering kCompute behind kExchange instead
// would save that way, some microseconds an update, but whatever is put into kCompute after it would wait for the other
// replicas as well: a node that also holds a shard would keep from its peers what they need to get there.
#include "solvers/exchange/collective_exchange.h"

#include "base/out_of_memory.h"

#include <chrono>
#include <utility>

namespace hp {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(100);

}  // namespace

CollectiveExchange::CollectiveExchange(Device* device, std::unique_ptr<Collectives> collectives, Callbacks callbacks)
    : device_(device), collectives_(std::move(collectives)), callbacks_(std::move(callbacks)) {
  thread_ = Thread("exchange", [this] { Run(); });
  watch_ = Thread("exchange watch", [this] { Watch(); });
}

CollectiveExchange::~CollectiveExchange() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  Abort(Cancelled("exchange: shut down"));
  thread_.Join();
  watch_.Join();
}

void CollectiveExchange::Add(uint64_t clock, int param, std::span<float> gradient) {
  params_.push_back(param);
  gradients_.push_back(gradient);
  bytes_ += gradient.size_bytes();
  if (bytes_ >= kBucketBytes) Flush(clock);
}

void CollectiveExchange::Flush(uint64_t clock) {
  CollectiveSum sum;
  sum.values = std::exchange(gradients_, {});
  const std::vector<int> params = std::exchange(params_, {});
  bytes_ = 0;
  if (params.empty() || ended()) return;
  const Device::Mark computed = device_->Record(Device::kCompute);
  sum.before = [this, computed] { device_->Follow(computed, Device::kExchange); };
  sum.after = [this, clock, params] { Enqueued(clock, params); };
  if (const Status status = collectives_->AllReduce(std::move(sum)); !status.ok()) Fail(status);
}

void CollectiveExchange::Enqueued(uint64_t clock, const std::vector<int>& params) {
  const Device::Mark done = device_->Record(Device::kExchange);
  MutexLock lock(&mutex_);
  steps_.push_back({done, clock, params});
  changed_.SignalAll();
}

void CollectiveExchange::Run() {
  for (;;) {
    Step step;
    {
      MutexLock lock(&mutex_);
      while (steps_.empty() && !stop_) changed_.Wait(&mutex_);
      if (steps_.empty()) return;
      step = std::move(steps_.front());
      steps_.pop_front();
    }
    const Status status = OrOutOfMemory("summing gradients", [&] {
      HP_RETURN_IF_ERROR(Await(step));
      for (const int param : step.params) {
        if (!ended()) callbacks_.on_exchanged(step.clock, param);
      }
      return OkStatus();
    });
    if (!status.ok()) Fail(status);
  }
}

// A collective that was ended early reaches its mark as well: it is a sum only if there is no error.
Status CollectiveExchange::Await(const Step& step) {
  HP_RETURN_IF_ERROR(device_->Wait(step.done));
  return collectives_->AsyncError();
}

// A collective that lost a replica says so only when it is asked, and until it is aborted its mark is not reached.
void CollectiveExchange::Watch() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!stop_ && status_.ok()) changed_.WaitFor(&mutex_, kWatchEvery);
      if (stop_ || !status_.ok()) return;
    }
    if (const Status status = collectives_->AsyncError(); !status.ok()) return Fail(status);
  }
}

// A failure that Abort caused itself is no news.
void CollectiveExchange::Fail(const Status& status) {
  if (End(status)) callbacks_.on_failure(status);
}

bool CollectiveExchange::End(const Status& cause) {
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return false;
    status_ = cause;
    changed_.SignalAll();
  }
  collectives_->Abort();
  return true;
}

bool CollectiveExchange::ended() const {
  MutexLock lock(&mutex_);
  return !status_.ok();
}

}  // namespace hp
