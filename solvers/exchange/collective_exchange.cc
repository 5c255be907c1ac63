#include "solvers/exchange/collective_exchange.h"

#include <chrono>
#include <utility>

namespace hp {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(100);

}  // namespace

CollectiveExchange::CollectiveExchange(Device* device, std::unique_ptr<Collectives> collectives,
                                       std::function<void(const Status&)> on_failure)
    : device_(device), collectives_(std::move(collectives)), on_failure_(std::move(on_failure)) {
  thread_ = Thread("exchange", [this] { Watch(); });
}

CollectiveExchange::~CollectiveExchange() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.Signal();
  }
  thread_.Join();
}

void CollectiveExchange::Add(uint64_t, int, std::span<float> gradient) {
  if (!status().ok()) return;
  device_->Order(Device::kCompute, Device::kExchange);
  if (const Status status = collectives_->AllReduce(gradient); !status.ok()) Fail(status);
}

void CollectiveExchange::FinishAsync(uint64_t, std::function<void(const Status&)> done) {
  device_->Order(Device::kExchange, Device::kCompute);
  done(status());
}

void CollectiveExchange::Abort(const Status& cause) {
  if (SetStatus(cause)) collectives_->Abort();
}

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
  if (!SetStatus(status)) return;
  collectives_->Abort();
  if (on_failure_) on_failure_(status);
}

bool CollectiveExchange::SetStatus(const Status& status) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return false;
  status_ = status;
  changed_.Signal();
  return true;
}

Status CollectiveExchange::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

}  // namespace hp
