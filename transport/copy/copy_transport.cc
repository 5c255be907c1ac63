// Posts are split by what they concern: grants in memory that peers open, of a pair that copies, and grants that came
// with kCopyGrantBit, go to the peer's CopyLink; all others to the transport beneath. Of its events, messages of our
// own types go to the link, everything else to the handler.
#include "transport/copy/copy_transport.h"

#include <optional>
#include <utility>

namespace hp {

/// Memory that peers may copy into, and what was registered of it beneath.
class CopyTransport::Registration : public MemoryRegion {
 public:
  Registration(CopyTransport* transport, const std::byte* memory, std::unique_ptr<MemoryRegion> beneath)
      : transport_(transport), memory_(memory), beneath_(std::move(beneath)) {}
  ~Registration() override { transport_->Forget(memory_); }

 private:
  CopyTransport* const transport_;
  const std::byte* const memory_;  // its begin
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
  HP_ASSIGN_OR_RETURN(std::unique_ptr<MemoryRegion> beneath, beneath_->Register(memory));
  const std::optional<DeviceMemory> shared = options_.copier->FindShared(memory);
  if (!shared) return beneath;
  HP_ASSIGN_OR_RETURN(std::string handle, shared->export_handle());
  return Keep(shared->bytes, std::move(handle), std::move(beneath));
}

StatusOr<std::unique_ptr<MemoryRegion>> CopyTransport::RegisterDevice(const DeviceMemory& memory) {
  if (!memory.export_handle) return FailedPrecondition("GPU %d exports no memory", memory.device);
  std::unique_ptr<MemoryRegion> beneath;
  if (options_.register_beneath) {
    HP_ASSIGN_OR_RETURN(beneath, beneath_->RegisterDevice(memory));
  }
  HP_ASSIGN_OR_RETURN(std::string handle, memory.export_handle());
  return Keep(memory.bytes, std::move(handle), std::move(beneath));
}

// Parts of one allocation share a region: a peer opens it once, and a message of it is sent once.
std::unique_ptr<MemoryRegion> CopyTransport::Keep(std::span<std::byte> memory, std::string handle,
                                                  std::unique_ptr<MemoryRegion> beneath) {
  MutexLock lock(&mutex_);
  Kept& kept = memory_[memory.data()];
  if (kept.registrations++ == 0) kept.memory = {next_region_++, memory, std::move(handle)};
  return std::make_unique<Registration>(this, memory.data(), std::move(beneath));
}

void CopyTransport::Forget(const std::byte* memory) {
  MutexLock lock(&mutex_);
  const auto it = memory_.find(memory);
  if (--it->second.registrations == 0) memory_.erase(it);
}

const CopyMemory* CopyTransport::FindMemory(std::span<const std::byte> part) const {
  auto it = memory_.upper_bound(part.data());
  if (it == memory_.begin()) return nullptr;
  const CopyMemory& memory = (--it)->second.memory;
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
  if (link && link->copies() && place.size() >= options_.min_bytes && !place.empty()) {
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
  if (!options_.copier->is_host()) {
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
