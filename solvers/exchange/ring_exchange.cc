// The exchange's thread is the only one that touches the ring and adds. The others put events into a list, which it
// takes as a whole, so that a burst of arrivals costs one wake-up.
//
// Small parameters share a bucket, because a collective costs a round trip for each replica whatever its size. What
// shares one follows from the sizes and their order alone, never from when gradients arrive: the order of additions
// depends on where a value lies in its collective, and all replicas must do the same.
#include "solvers/exchange/ring_exchange.h"

#include "base/out_of_memory.h"

#include "glog/logging.h"

#include <algorithm>
#include <iterator>

namespace hp {

StatusOr<std::unique_ptr<RingExchange>> RingExchange::Create(RingPlan plan, std::vector<int> params, RingLinks* links,
                                                             Callbacks callbacks) {
  std::unique_ptr<RingExchange> exchange(
      new RingExchange(std::move(plan), std::move(params), links, std::move(callbacks)));
  HP_RETURN_IF_ERROR(exchange->Prepare());
  RingExchange* const self = exchange.get();
  links->Begin(self);
  exchange->thread_ = Thread("exchange", [self] { self->Run(); });
  return exchange;
}

RingExchange::RingExchange(RingPlan plan, std::vector<int> params, RingLinks* links, Callbacks callbacks)
    : plan_(std::move(plan)),
      params_(std::move(params)),
      links_(links),
      callbacks_(std::move(callbacks)),
      values_(plan_.collectives().size()) {
  CHECK_EQ(params_.size(), plan_.counts().size());
}

RingExchange::~RingExchange() {
  Abort(Cancelled("exchange: shut down"));
  thread_.Join();
}

size_t RingExchange::BytesFor(const RingPlan& plan) {
  size_t bytes = Ring::BytesFor(plan);
  for (const RingPlan::Collective& collective : plan.collectives()) {
    if (collective.params.size() > 1) bytes += collective.count * sizeof(float);
  }
  return bytes;
}

Status RingExchange::Prepare() {
  HP_ASSIGN_OR_RETURN(
      ring_, Ring::Create(&plan_, links_, [this](uint64_t clock, int collective) { Finish(clock, collective); }));
  for (size_t i = 0; i < values_.size(); ++i) {
    const RingPlan::Collective& collective = plan_.collectives()[i];
    if (collective.params.size() == 1) continue;
    HP_ASSIGN_OR_RETURN(values_[i].bucket, Buffer::Allocate(collective.count * sizeof(float)));
    HP_ASSIGN_OR_RETURN(values_[i].registered, links_->Register(values_[i].bucket.span()));
  }
  return OkStatus();
}

// --- Executor thread

void RingExchange::Add(uint64_t clock, int param, std::span<float> gradient) {
  Event event{.kind = Event::kAdded, .place = {.clock = clock}, .gradient = gradient};
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    CHECK(added_ == 0 || clock == clock_) << "clock " << clock << " before clock " << clock_ << " was flushed";
    CHECK(added_ < params_.size() && params_[added_] == param && plan_.counts()[added_] == gradient.size())
        << "parameter " << param << " of " << gradient.size() << " values is not the plan's " << added_;
    event.param = static_cast<int>(added_++);
    clock_ = clock;
  }
  Push(std::move(event));
}

void RingExchange::Flush(uint64_t clock) {
  MutexLock lock(&mutex_);
  CHECK(!status_.ok() || added_ == params_.size())
      << "clock " << clock << " was flushed after " << added_ << " of " << params_.size() << " parameters";
  added_ = 0;
}

// --- Any thread

void RingExchange::Push(Event event) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  events_.push_back(std::move(event));
  changed_.Signal();
}

bool RingExchange::End(const Status& cause) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return false;
  status_ = cause;
  changed_.Signal();
  return true;
}

bool RingExchange::ended() const {
  MutexLock lock(&mutex_);
  return !status_.ok();
}

// --- Exchange thread

void RingExchange::Run() {
  for (;;) {
    const std::vector<Event> events = Take();
    if (events.empty()) return;
    for (const Event& event : events) {
      const Status status = OrOutOfMemory("summing gradients", [&] { return Handle(event); });
      if (status.ok()) continue;
      if (End(status)) callbacks_.on_failure(status);
      return;
    }
  }
}

std::vector<RingExchange::Event> RingExchange::Take() {
  MutexLock lock(&mutex_);
  while (events_.empty() && status_.ok()) changed_.Wait(&mutex_);
  if (!status_.ok()) return {};
  return std::exchange(events_, {});
}

Status RingExchange::Handle(const Event& event) {
  switch (event.kind) {
    case Event::kAdded:
      TakeGradient(event);
      break;
    case Event::kGranted:
      return ring_->OnGranted(event.place, event.grant);
    case Event::kArrived:
      HP_RETURN_IF_ERROR(ring_->OnArrived(event.place));
      break;
    case Event::kWritten:
      HP_RETURN_IF_ERROR(ring_->OnWritten(event.place));
      break;
    case Event::kBroken:
      return event.status;
  }
  return StartNext();
}

void RingExchange::TakeGradient(const Event& added) {
  const int collective = plan_.collective_of(added.param);
  std::vector<std::span<float>>& gradients = values_[collective].gradients;
  gradients.push_back(added.gradient);
  if (gradients.size() == plan_.collectives()[collective].params.size()) {
    to_start_.push_back({added.place.clock, collective});
  }
}

Status RingExchange::StartNext() {
  while (!to_start_.empty() && ring_->under_way() < Ring::kUnderWay) {
    const auto [clock, collective] = to_start_.front();
    to_start_.pop_front();
    HP_ASSIGN_OR_RETURN(const std::span<float> values, ValuesOf(collective));
    HP_RETURN_IF_ERROR(ring_->Start(clock, collective, values));
  }
  return OkStatus();
}

StatusOr<std::span<float>> RingExchange::ValuesOf(int collective) {
  Values& values = values_[collective];
  if (values.gradients.size() > 1) {
    float* to = values.bucket.floats();
    for (const std::span<float>& gradient : values.gradients) to = std::copy(gradient.begin(), gradient.end(), to);
    return std::span<float>(values.bucket.floats(), plan_.collectives()[collective].count);
  }
  const std::span<float> gradient = values.gradients[0];
  if (values.at != gradient.data()) {  // the first update
    values.registered.reset();
    HP_ASSIGN_OR_RETURN(values.registered, links_->Register(std::as_writable_bytes(gradient)));
    values.at = gradient.data();
  }
  return gradient;
}

void RingExchange::Finish(uint64_t clock, int collective) {
  if (ended()) return;
  Values& values = values_[collective];
  const std::vector<std::span<float>> gradients = std::exchange(values.gradients, {});
  if (gradients.size() > 1) {
    const float* from = values.bucket.floats();
    for (const std::span<float>& gradient : gradients) {
      std::copy(from, from + gradient.size(), gradient.begin());
      from += gradient.size();
    }
  }
  for (int param : plan_.collectives()[collective].params) callbacks_.on_exchanged(clock, params_[param]);
}

}  // namespace hp
