// The exchange's thread is the only one that touches the sums under way and adds. The others put events into a list,
// which it takes as a whole, so that a burst of arrivals costs one wake-up.
//
// Small parameters share a bucket, because a collective costs a round trip for each replica whatever its size. What
// shares one follows from the sizes and their order alone, never from when gradients arrive: the order of additions
// depends on where a value lies in its collective, and all replicas must do the same.
#include "solvers/exchange/linked_exchange.h"

#include "base/out_of_memory.h"

#include "glog/logging.h"

#include <algorithm>
#include <iterator>

namespace hp {

StatusOr<std::unique_ptr<LinkedExchange>> LinkedExchange::Create(const MakeSums& make_sums, std::vector<int> params,
                                                                 PeerLinks* links, Callbacks callbacks) {
  std::unique_ptr<LinkedExchange> exchange(new LinkedExchange(std::move(params), links, std::move(callbacks)));
  HP_RETURN_IF_ERROR(exchange->Prepare(make_sums));
  LinkedExchange* const self = exchange.get();
  links->Begin(self);
  exchange->thread_ = Thread("exchange", [self] { self->Run(); });
  return exchange;
}

LinkedExchange::LinkedExchange(std::vector<int> params, PeerLinks* links, Callbacks callbacks)
    : params_(std::move(params)), links_(links), callbacks_(std::move(callbacks)) {}

LinkedExchange::~LinkedExchange() {
  Abort(Cancelled("exchange: shut down"));
  thread_.Join();
}

size_t LinkedExchange::BucketBytes(const BlockPlan& plan) {
  size_t bytes = 0;
  for (const BlockPlan::Collective& collective : plan.collectives()) {
    if (collective.params.size() > 1) bytes += collective.count * sizeof(float);
  }
  return bytes;
}

Status LinkedExchange::Prepare(const MakeSums& make_sums) {
  HP_ASSIGN_OR_RETURN(sums_, make_sums([this](uint64_t clock, int collective) { Finish(clock, collective); }));
  CHECK_EQ(params_.size(), plan().counts().size());
  values_.resize(plan().collectives().size());
  for (size_t i = 0; i < values_.size(); ++i) {
    const BlockPlan::Collective& collective = plan().collectives()[i];
    if (collective.params.size() == 1) continue;
    HP_ASSIGN_OR_RETURN(values_[i].bucket, links_->Allocate(collective.count * sizeof(float)));
    HP_ASSIGN_OR_RETURN(values_[i].registered, links_->Register(values_[i].bucket.span()));
  }
  return OkStatus();
}

// --- Executor thread

void LinkedExchange::Add(uint64_t clock, int param, std::span<float> gradient) {
  Event event{.kind = Event::kAdded, .place = {.clock = clock}, .gradient = gradient};
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    CHECK(added_ == 0 || clock == clock_) << "clock " << clock << " before clock " << clock_ << " was flushed";
    CHECK(added_ < params_.size() && params_[added_] == param && plan().counts()[added_] == gradient.size())
        << "parameter " << param << " of " << gradient.size() << " values is not the plan's " << added_;
    event.param = static_cast<int>(added_++);
    clock_ = clock;
  }
  Push(std::move(event));
}

void LinkedExchange::Flush(uint64_t clock) {
  MutexLock lock(&mutex_);
  CHECK(!status_.ok() || added_ == params_.size())
      << "clock " << clock << " was flushed after " << added_ << " of " << params_.size() << " parameters";
  added_ = 0;
}

// --- Any thread

void LinkedExchange::Push(Event event) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  events_.push_back(std::move(event));
  changed_.Signal();
}

bool LinkedExchange::End(const Status& cause) {
  MutexLock lock(&mutex_);
  if (!status_.ok()) return false;
  status_ = cause;
  changed_.Signal();
  return true;
}

bool LinkedExchange::ended() const {
  MutexLock lock(&mutex_);
  return !status_.ok();
}

// --- Exchange thread

void LinkedExchange::Run() {
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

std::vector<LinkedExchange::Event> LinkedExchange::Take() {
  MutexLock lock(&mutex_);
  while (events_.empty() && status_.ok()) changed_.Wait(&mutex_);
  if (!status_.ok()) return {};
  return std::exchange(events_, {});
}

Status LinkedExchange::Handle(const Event& event) {
  switch (event.kind) {
    case Event::kAdded:
      TakeGradient(event);
      break;
    case Event::kGranted:
      return sums_->OnGranted(event.peer, event.place, event.grant);
    case Event::kArrived:
      HP_RETURN_IF_ERROR(sums_->OnArrived(event.peer, event.place));
      break;
    case Event::kWritten:
      HP_RETURN_IF_ERROR(sums_->OnWritten(event.peer, event.place));
      break;
    case Event::kBroken:
      return event.status;
  }
  return StartNext();
}

void LinkedExchange::TakeGradient(const Event& added) {
  const int collective = plan().collective_of(added.param);
  std::vector<std::span<float>>& gradients = values_[collective].gradients;
  gradients.push_back(added.gradient);
  if (gradients.size() == plan().collectives()[collective].params.size()) {
    to_start_.push_back({added.place.clock, collective});
  }
}

Status LinkedExchange::StartNext() {
  while (!to_start_.empty() && sums_->under_way() < Allreduce::kUnderWay) {
    const auto [clock, collective] = to_start_.front();
    to_start_.pop_front();
    HP_ASSIGN_OR_RETURN(const std::span<float> values, ValuesOf(collective));
    HP_RETURN_IF_ERROR(sums_->Start(clock, collective, values));
  }
  return OkStatus();
}

StatusOr<std::span<float>> LinkedExchange::ValuesOf(int collective) {
  Values& values = values_[collective];
  if (values.gradients.size() > 1) {
    float* to = values.bucket.floats();
    for (const std::span<float>& gradient : values.gradients) to = std::copy(gradient.begin(), gradient.end(), to);
    return std::span<float>(values.bucket.floats(), plan().collectives()[collective].count);
  }
  const std::span<float> gradient = values.gradients[0];
  if (values.at != gradient.data()) {  // the first update
    values.registered.reset();
    HP_ASSIGN_OR_RETURN(values.registered, links_->Register(std::as_writable_bytes(gradient)));
    values.at = gradient.data();
  }
  return gradient;
}

void LinkedExchange::Finish(uint64_t clock, int collective) {
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
  for (int param : plan().collectives()[collective].params) callbacks_.on_exchanged(clock, params_[param]);
}

}  // namespace hp
