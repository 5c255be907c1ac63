#include "solvers/exchange/staged_exchange.h"

#include <utility>

namespace hp {

StagedExchange::StagedExchange(Device* device, std::unique_ptr<Exchange> inner)
    : device_(device), inner_(std::move(inner)) {
  thread_ = Thread("staging", [this] { Run(); });
}

StagedExchange::~StagedExchange() {
  Abort(Cancelled("exchange: ended"));
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.Signal();
  }
  thread_.Join();
}

StatusOr<std::span<float>> StagedExchange::HostCopyOf(int param, size_t count) {
  Buffer& copy = host_copies_[param];
  if (copy.bytes() != count * sizeof(float)) {
    HP_ASSIGN_OR_RETURN(copy, device_->AllocateHost(count * sizeof(float)));
  }
  return std::span<float>{copy.floats(), count};
}

void StagedExchange::Add(uint64_t clock, int param, std::span<float> gradient) {
  const StatusOr<std::span<float>> copy = HostCopyOf(param, gradient.size());
  if (!copy.ok()) {
    MutexLock lock(&mutex_);
    allocation_ = copy.status();
    return;
  }
  device_->Order(Device::kCompute, Device::kExchange);
  device_->Download(Device::kExchange, copy->data(), gradient.data(), gradient.size_bytes());
  Push({clock, param, gradient, *copy, device_->Record(Device::kExchange), nullptr});
}

void StagedExchange::FinishAsync(uint64_t clock, std::function<void(const Status&)> done) {
  Push({clock, 0, {}, {}, 0, std::move(done)});
}

void StagedExchange::Abort(const Status& cause) { inner_->Abort(cause); }

void StagedExchange::Push(Step step) {
  MutexLock lock(&mutex_);
  steps_.push_back(std::move(step));
  changed_.Signal();
}

void StagedExchange::Run() {
  for (;;) {
    Step step;
    {
      MutexLock lock(&mutex_);
      while (steps_.empty() && !stop_) changed_.Wait(&mutex_);
      if (steps_.empty()) return;
      step = std::move(steps_.front());
      steps_.pop_front();
      if (failure_.ok()) failure_ = allocation_;
    }
    Process(step);
  }
}

void StagedExchange::Process(const Step& step) {
  if (step.done) return step.done(SumAll(step.clock));
  const Status copied = device_->Wait(step.copied);
  if (failure_.ok()) failure_ = copied;
  if (!failure_.ok()) return;
  added_.push_back(step);
  inner_->Add(step.clock, step.param, step.host_copy);
}

// The others must not wait for what we can't give: a failure of ours ends the exchange.
Status StagedExchange::SumAll(uint64_t clock) {
  if (!failure_.ok()) {
    inner_->Abort(failure_);
    return failure_;
  }
  HP_RETURN_IF_ERROR(inner_->Finish(clock));
  for (const Step& step : added_) {
    device_->Upload(Device::kExchange, step.gradient.data(), step.host_copy.data(), step.gradient.size_bytes());
  }
  added_.clear();
  device_->Order(Device::kExchange, Device::kCompute);
  return OkStatus();
}

}  // namespace hp
