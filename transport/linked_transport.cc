#include "transport/linked_transport.h"

#include "base/format.h"

#include <new>
#include <utility>

namespace hp {

// As what nobody catches.
void TransportHandler::OnOutOfMemory(const Status&) { throw std::bad_alloc(); }
namespace {

class NoRegion : public MemoryRegion {};

Status NotConnected(Rank peer) { return Unavailable("node %d is not connected", peer); }

}  // namespace

std::shared_ptr<PeerLink> LinkedTransport::Find(Rank peer) const {
  MutexLock lock(&mutex_);
  const auto it = links_.find(peer);
  return it == links_.end() ? nullptr : it->second;
}

bool LinkedTransport::HasOpenLink(Rank peer) const {
  const auto link = Find(peer);
  return link && !link->closed();
}

void LinkedTransport::AddLink(Rank peer, std::shared_ptr<PeerLink> link) {
  MutexLock lock(&mutex_);
  // Of a closed node, LastHeardNs still tells; clients come and go, and are forgotten.
  std::erase_if(links_, [](const auto& entry) { return entry.first >= kFirstClientRank && entry.second->closed(); });
  links_[peer] = std::move(link);
}

void LinkedTransport::AbandonLinks() {
  std::map<Rank, std::shared_ptr<PeerLink>> links;
  {
    MutexLock lock(&mutex_);
    links.swap(links_);
  }
  for (const auto& [rank, link] : links) link->Abandon();
}

StatusOr<std::unique_ptr<MemoryRegion>> LinkedTransport::Register(std::span<std::byte>) {
  return std::unique_ptr<MemoryRegion>(std::make_unique<NoRegion>());
}

Status LinkedTransport::Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) {
  const auto link = Find(peer);
  return link ? link->Grant(tag, place) : NotConnected(peer);
}

Status LinkedTransport::Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  const auto link = Find(peer);
  return link ? link->Write(tag, grant, source) : NotConnected(peer);
}

Status LinkedTransport::CancelGrant(Rank peer, RemoteGrant grant) {
  const auto link = Find(peer);
  return link ? link->CancelGrant(grant) : NotConnected(peer);
}

Status LinkedTransport::Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  const auto link = Find(peer);
  return link ? link->Send(type, bytes) : NotConnected(peer);
}

void LinkedTransport::Flush(Rank peer) {
  if (const auto link = Find(peer)) link->Flush();
}

int64_t LinkedTransport::LastHeardNs(Rank peer) const {
  const auto link = Find(peer);
  return link ? link->LastHeardNs() : 0;
}

int64_t LinkedTransport::LastSentNs(Rank peer) const {
  const auto link = Find(peer);
  return link ? link->LastSentNs() : 0;
}

void LinkedTransport::Shutdown(Rank peer) {
  if (const auto link = Find(peer)) link->Shutdown();
}

void LinkedTransport::Break(Rank peer, const Status& cause) {
  const auto link = Find(peer);
  if (link) Defer([link, status = Unavailable("%s", cause.message().c_str())] { link->Break(status); });
}

}  // namespace hp
