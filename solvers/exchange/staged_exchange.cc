// A gradient goes four steps: device to host, into the inner exchange, host to device, reported. The first and the
// third are copies in one queue of the device, whose marks are reached in their order, so one thread waits for them one
// after the other without holding any of them up. Nothing is ordered between kExchange and kCompute after the copy
// back: the update is put into kCompute when the copy has been reported, and so is done.
#include "solvers/exchange/staged_exchange.h"

#include "base/out_of_memory.h"

#include <utility>

namespace hp {

StatusOr<std::unique_ptr<Exchange>> StagedExchange::Create(Device* device, const MakeInner& make_inner,
                                                           Callbacks callbacks) {
  std::unique_ptr<StagedExchange> staged(new StagedExchange(device, std::move(callbacks)));
  StagedExchange* const self = staged.get();
  HP_ASSIGN_OR_RETURN(staged->inner_,
                      make_inner({.on_exchanged = [self](uint64_t clock, int param) { self->CopyBack(clock, param); },
                                  .on_failure = [self](const Status& status) { self->Fail(status); }}));
  staged->thread_ = Thread("staging", [self] { self->Run(); });
  return std::unique_ptr<Exchange>(std::move(staged));
}

StagedExchange::~StagedExchange() {
  End(Cancelled("exchange: shut down"));
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.Signal();
  }
  thread_.Join();  // when the copies are done: they use our memory
  inner_.reset();  // it calls CopyBack
}

void StagedExchange::Add(uint64_t clock, int param, std::span<float> gradient) {
  if (const Status status = CopyOut(clock, param, gradient); !status.ok()) Fail(status);
}

Status StagedExchange::CopyOut(uint64_t clock, int param, std::span<float> gradient) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return OkStatus();
  Copy& copy = copies_[param];
  copy.gradient = gradient;
  if (copy.host.bytes() != gradient.size_bytes()) {
    HP_ASSIGN_OR_RETURN(copy.host, device_->AllocateHost(gradient.size_bytes()));
  }
  device_->Order(Device::kCompute, Device::kExchange);
  device_->Download(Device::kExchange, copy.host.data(), gradient.data(), gradient.size_bytes());
  steps_.push_back({Step::kGive, clock, param, device_->Record(Device::kExchange), copy.host_values()});
  changed_.Signal();
  return OkStatus();
}

void StagedExchange::CopyBack(uint64_t clock, int param) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  const Copy& copy = copies_.at(param);
  device_->Upload(Device::kExchange, copy.gradient.data(), copy.host.data(), copy.gradient.size_bytes());
  steps_.push_back({Step::kReport, clock, param, device_->Record(Device::kExchange)});
  changed_.Signal();
}

void StagedExchange::Flush(uint64_t clock) {
  MutexLock lock(&mutex_);
  steps_.push_back({Step::kFlush, clock});
  changed_.Signal();
}

void StagedExchange::Run() {
  for (;;) {
    Step step;
    {
      MutexLock lock(&mutex_);
      while (steps_.empty() && !stop_) changed_.Wait(&mutex_);
      if (steps_.empty()) return;
      step = steps_.front();
      steps_.pop_front();
    }
    const Status status = OrOutOfMemory("summing gradients", [&] { return Carry(step); });
    if (!status.ok()) Fail(status);
  }
}

Status StagedExchange::Carry(const Step& step) {
  if (step.kind != Step::kFlush) HP_RETURN_IF_ERROR(device_->Wait(step.copied));
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return OkStatus();
  }
  switch (step.kind) {
    case Step::kGive:
      inner_->Add(step.clock, step.param, step.host_values);
      break;
    case Step::kFlush:
      inner_->Flush(step.clock);
      break;
    case Step::kReport:
      callbacks_.on_exchanged(step.clock, step.param);
      break;
  }
  return OkStatus();
}

// The others must not wait for what we can't give: a failure of ours ends the exchange. One that Abort caused itself is
// no news.
void StagedExchange::Fail(const Status& status) {
  if (End(status)) callbacks_.on_failure(status);
}

bool StagedExchange::End(const Status& cause) {
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return false;
    status_ = cause;
  }
  if (inner_) inner_->Abort(cause);
  return true;
}

}  // namespace hp
