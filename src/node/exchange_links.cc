#include "node/exchange_links.h"

#include "node/exchange_place.h"
#include "scheduler/control/exchange_tag.h"

namespace hp {

PlaceTag ExchangeLinks::TagOf(const LinkPlace& place) const {
  return ExchangeTag(places_.stage, place.clock, place.number);
}

StatusOr<std::shared_ptr<const void>> ExchangeLinks::Register(std::span<std::byte> memory) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<MemoryRegion> region, transport_->Register(memory));
  return std::shared_ptr<const void>(std::shared_ptr<MemoryRegion>(std::move(region)));
}

Status ExchangeLinks::Grant(const LinkPlace& place, std::span<float> memory) {
  {
    MutexLock lock(&mutex_);
    granted_[place] = memory.size_bytes();
  }
  return transport_->Grant(left_, TagOf(place), std::as_writable_bytes(memory)).Prepend("exchange");
}

Status ExchangeLinks::Write(const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) {
  {
    MutexLock lock(&mutex_);
    payload_[places_.granter].sent += std::ssize(std::as_bytes(source));
  }
  return transport_->Write(places_.granter, TagOf(place), {grant.index, grant.generation}, std::as_bytes(source))
      .Prepend("exchange");
}

void ExchangeLinks::OnGranted(const PlaceTag& tag, RemoteGrant grant) {
  events_->OnGranted(PlaceOf(tag), {grant.index, grant.generation});
}

// A neighbour that ends its connection in order (kCancelled) leaves the ring as well.
void ExchangeLinks::OnGrantEnded(const PlaceTag& tag, const Status& status) {
  const LinkPlace place = PlaceOf(tag);
  {
    MutexLock lock(&mutex_);
    const auto granted = granted_.extract(place);
    if (status.ok() && granted) payload_[left_].received += static_cast<int64_t>(granted.mapped());
  }
  if (status.ok()) return events_->OnArrived(place);
  events_->OnBroken(Unavailable("exchange: %s", status.message().c_str()));
}

void ExchangeLinks::OnWriteEnded(const PlaceTag& tag, const Status& status) {
  if (status.ok()) return events_->OnWritten(PlaceOf(tag));
  events_->OnBroken(Unavailable("exchange: %s", status.message().c_str()));
}

}  // namespace hp
