// Posts are split by what they concern: grants in registered device memory of a pair that copies, and grants that came
// with kCopyGrantBit, go to the peer's CopyLink; all others to the transport beneath. Of its events, messages of our
// own types go to the link, everything else to the handler.
#include "transport/copy/copy_transport.h"

#include <optional>
#include <utility>

namespace hp {

/// Memory that peers may copy into, and what was registered of it beneath.
class CopyTransport::Registration : public MemoryRegion {
 public:
  Registration(CopyTransport* transport, uint32_t region, std::unique_ptr<MemoryRegion> beneath)
      : transport_(transport), region_(region), beneath_(std::move(beneath)) {}
  ~Registration() override { transport_->Forget(region_); }

 private:
  CopyTransport* const transport_;
  const uint32_t region_;
  const std::unique_ptr<MemoryRegion> beneath_;
};

CopyTransport::CopyTransport(Transport* beneath, CopyOptions options)
    : beneath_(beneath), options_(std::move(options)), queue_(options_.copier) {
  offer_.device = options_.copier->name();
  const DeviceMemory& probe = options_.copier->probe();
  StatusOr<std::string> handle =
      probe.export_handle ? probe.export_handle() : FailedPrecondition("%s exports no memory", offer_.device.c_str());
  if (handle.ok()) offer_.handle = *std::move(handle);
  offer_.why_not = handle.status().message();
}

Status CopyTransport::Start(TransportHandler* handler, HandshakePolicy* policy) {
  handler_ = handler;
  queue_.Start(options_.thread_name);
  return beneath_->Start(this, policy);
}

void CopyTransport::Stop() {
  queue_.Stop();
  beneath_->Stop();
  std::map<Rank, std::shared_ptr<CopyLink>> links;
  {
    MutexLock lock(&mutex_);
    links = links_;
  }
  for (const auto& [peer, link] : links) link->Abandon();
}

// --- Memory

StatusOr<std::unique_ptr<MemoryRegion>> CopyTransport::Register(std::span<std::byte> memory) {
  return beneath_->Register(memory);
}

StatusOr<std::unique_ptr<MemoryRegion>> CopyTransport::RegisterDevice(const DeviceMemory& memory) {
  if (!memory.export_handle) return FailedPrecondition("GPU %d exports no memory", memory.device);
  std::unique_ptr<MemoryRegion> beneath;
  if (options_.register_beneath) {
    HP_ASSIGN_OR_RETURN(beneath, beneath_->RegisterDevice(memory));
  }
  HP_ASSIGN_OR_RETURN(std::string handle, memory.export_handle());
  MutexLock lock(&mutex_);
  const uint32_t region = next_region_++;
  memory_[memory.bytes.data()] = {region, memory.bytes, std::move(handle)};
  return std::unique_ptr<MemoryRegion>(std::make_unique<Registration>(this, region, std::move(beneath)));
}

void CopyTransport::Forget(uint32_t region) {
  MutexLock lock(&mutex_);
  std::erase_if(memory_, [region](const auto& entry) { return entry.second.region == region; });
}

const CopyMemory* CopyTransport::FindMemory(std::span<const std::byte> part) const {
  auto it = memory_.upper_bound(part.data());
  if (it == memory_.begin()) return nullptr;
  const CopyMemory& memory = (--it)->second;
  const auto offset = static_cast<size_t>(part.data() - memory.bytes.data());
  const bool inside = offset <= memory.bytes.size() && part.size() <= memory.bytes.size() - offset;
  return inside ? &memory : nullptr;
}

// --- Posts

std::shared_ptr<CopyLink> CopyTransport::Find(Rank peer) const {
  MutexLock lock(&mutex_);
  const auto it = links_.find(peer);
  return it == links_.end() ? nullptr : it->second;
}

bool CopyTransport::Copies(Rank peer) const {
  const auto link = Find(peer);
  return link && link->copies();
}

Status CopyTransport::CheckOpen(Rank peer) const {
  const auto link = Find(peer);
  return link ? link->CheckOpen() : OkStatus();
}

Status CopyTransport::Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) {
  const auto link = Find(peer);
  if (link && link->copies() && !place.empty()) {
    std::optional<CopyMemory> memory;
    {
      MutexLock lock(&mutex_);
      if (const CopyMemory* const found = FindMemory(place)) memory = *found;
    }
    if (memory) return link->Grant(tag, *memory, place);
  }
  if (link) HP_RETURN_IF_ERROR(link->CheckOpen());
  return beneath_->Grant(peer, tag, place);
}

Status CopyTransport::Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  HP_RETURN_IF_ERROR(CheckOpen(peer));
  const auto link = Find(peer);
  if (!(grant.index & kCopyGrantBit) || !link) return beneath_->Write(peer, tag, grant, source);
  {
    MutexLock lock(&mutex_);
    if (FindMemory(source) == nullptr) return InvalidArgument("a copy from memory that is not registered for our GPU");
  }
  return link->Write(tag, {grant.index & ~kCopyGrantBit, grant.generation}, source);
}

Status CopyTransport::CancelGrant(Rank peer, RemoteGrant grant) {
  HP_RETURN_IF_ERROR(CheckOpen(peer));
  const auto link = Find(peer);
  if (!(grant.index & kCopyGrantBit) || !link) return beneath_->CancelGrant(peer, grant);
  return link->CancelGrant({grant.index & ~kCopyGrantBit, grant.generation});
}

Status CopyTransport::Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  if (type >= kFirstCopyMessage) return InvalidArgument("message type %#x is the transport's own", type);
  HP_RETURN_IF_ERROR(CheckOpen(peer));
  return beneath_->Send(peer, type, bytes);
}

void CopyTransport::Shutdown(Rank peer) {
  const auto link = Find(peer);
  link ? link->Shutdown() : beneath_->Shutdown(peer);
}

// --- Events

bool CopyTransport::Ignored(Rank peer) const {
  const auto link = Find(peer);
  return link && link->closed();
}

void CopyTransport::OnConnected(Rank peer) {
  if (!Asks(peer)) return handler_->OnConnected(peer);
  if (const auto old = Find(peer); old && !old->reported()) {
    return beneath_->Break(peer, Unavailable("the last connection of node %d has not ended", peer));
  }
  auto link = std::make_shared<CopyLink>(peer, CopyLinkContext{beneath_, handler_, options_.copier, &queue_, offer_,
                                                               options_.on_settled, options_.on_failure});
  {
    MutexLock lock(&mutex_);
    links_[peer] = link;
  }
  handler_->OnConnected(peer);
  link->OnConnected();
}

void CopyTransport::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  if (!Ignored(peer)) handler_->OnGranted(peer, tag, grant, bytes);
}

void CopyTransport::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  handler_->OnGrantEnded(peer, tag, status);
}

void CopyTransport::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  handler_->OnWriteEnded(peer, tag, status);
}

void CopyTransport::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  if (Ignored(peer)) return;
  if (type < kFirstCopyMessage) return handler_->OnMessage(peer, type, bytes);
  const auto link = Find(peer);
  const Status status = link ? link->OnMessage(type, bytes) : InvalidArgument("unknown message type %#x", type);
  if (!status.ok()) beneath_->Break(peer, status.Prepend("protocol error"));
}

void CopyTransport::OnClosed(Rank peer, const Status& status) {
  const auto link = Find(peer);
  link ? link->OnClosed(status) : handler_->OnClosed(peer, status);
}

}  // namespace hp
