#include "node/exchange_links.h"

#include "node/exchange_place.h"
#include "scheduler/control/exchange_tag.h"

namespace hp {

ExchangeLinks::ExchangeLinks(Options options) : options_(std::move(options)) {
  for (size_t i = 0; i < options_.peers.size(); ++i) index_[options_.peers[i]] = static_cast<int>(i);
}

StatusOr<Buffer> ExchangeLinks::Allocate(size_t bytes) {
  const bool host = options_.device != nullptr && options_.device->is_host();
  return host ? options_.device->AllocateShared(bytes) : Buffer::Allocate(bytes);
}

StatusOr<std::shared_ptr<const void>> ExchangeLinks::Register(std::span<std::byte> memory) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<MemoryRegion> region, options_.transport->Register(memory));
  return std::shared_ptr<const void>(std::shared_ptr<MemoryRegion>(std::move(region)));
}

Status ExchangeLinks::Grant(int peer, const LinkPlace& place, std::span<std::byte> memory) {
  {
    MutexLock lock(&mutex_);
    granted_[{peer, place}] = memory.size();
  }
  const PlaceTag tag = ExchangeTag(options_.granted_stage, place.clock, place.number);
  return options_.transport->Grant(options_.peers[peer], tag, memory).Prepend("exchange");
}

Status ExchangeLinks::Write(int peer, const LinkPlace& place, const LinkGrant& grant,
                            std::span<const std::byte> source) {
  const Rank rank = options_.peers[peer];
  {
    MutexLock lock(&mutex_);
    payload_[rank].sent += std::ssize(source);
  }
  const PlaceTag tag = ExchangeTag(written_stage(), place.clock, place.number);
  return options_.transport->Write(rank, tag, {grant.index, grant.generation}, source).Prepend("exchange");
}

void ExchangeLinks::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant) {
  events_->OnGranted(index_.at(peer), PlaceOf(tag), {grant.index, grant.generation});
}

void ExchangeLinks::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  const int index = index_.at(peer);
  const LinkPlace place = PlaceOf(tag);
  {
    MutexLock lock(&mutex_);
    const auto granted = granted_.extract({index, place});
    if (status.ok() && granted) payload_[peer].received += static_cast<int64_t>(granted.mapped());
  }
  if (!status.ok()) return Break(status);
  events_->OnArrived(index, place);
}

void ExchangeLinks::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  if (!status.ok()) return Break(status);
  events_->OnWritten(index_.at(peer), PlaceOf(tag));
}

// A peer that ends its connection in order (kCancelled) leaves the exchange as well.
void ExchangeLinks::Break(const Status& status) {
  events_->OnBroken(Unavailable("exchange: %s", status.message().c_str()));
}

}  // namespace hp
