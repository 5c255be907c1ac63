#include "node/server_links.h"

#include "node/exchange_place.h"
#include "scheduler/control/exchange_tag.h"

#include "glog/logging.h"

namespace hp {

ServerLinks::ServerLinks(Options options) : options_(std::move(options)) {
  for (size_t i = 0; i < options_.peers.size(); ++i) index_[options_.peers[i]] = static_cast<int>(i);
}

StatusOr<std::shared_ptr<const void>> ServerLinks::Register(std::span<std::byte> memory) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<MemoryRegion> region, options_.transport->Register(memory));
  return std::shared_ptr<const void>(std::shared_ptr<MemoryRegion>(std::move(region)));
}

void ServerLinks::Grant(int peer, const LinkPlace& place, std::span<float> memory) {
  {
    MutexLock lock(&mutex_);
    granted_[{peer, place}] = memory.size_bytes();
  }
  const PlaceTag tag = ExchangeTag(options_.granted_stage, place.clock, place.number);
  const Status status = options_.transport->Grant(options_.peers[peer], tag, std::as_writable_bytes(memory));
  if (!status.ok()) LOG(WARNING) << "grant to node " << options_.peers[peer] << ": " << status;
}

void ServerLinks::Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) {
  const Rank rank = options_.peers[peer];
  {
    MutexLock lock(&mutex_);
    payload_[rank].sent += std::ssize(std::as_bytes(source));
  }
  const PlaceTag tag = ExchangeTag(written_stage(), place.clock, place.number);
  const Status status = options_.transport->Write(rank, tag, {grant.index, grant.generation}, std::as_bytes(source));
  if (!status.ok()) LOG(WARNING) << "write to node " << rank << ": " << status;
}

void ServerLinks::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant) {
  events_->OnGranted(index_.at(peer), PlaceOf(tag), {grant.index, grant.generation});
}

void ServerLinks::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  const int index = index_.at(peer);
  const LinkPlace place = PlaceOf(tag);
  {
    MutexLock lock(&mutex_);
    const auto granted = granted_.extract({index, place});
    if (!status.ok()) return;
    if (granted) payload_[peer].received += static_cast<int64_t>(granted.mapped());
  }
  events_->OnArrived(index, place);
}

void ServerLinks::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  if (status.ok()) events_->OnWritten(index_.at(peer), PlaceOf(tag));
}

}  // namespace hp
