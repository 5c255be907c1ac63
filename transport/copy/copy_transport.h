#pragma once

#include "base/mutex.h"
#include "transport/copy/copy_link.h"
#include "transport/copy/copy_queue.h"
#include "transport/copy/device_copier.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

namespace hp {

/// Which peers of a node may be reached by copies, and callbacks.
struct CopyOptions {
  /// The nodes that may be on this host, on devices of the same kind. Both nodes of a pair must have each other here.
  std::set<Rank> peers;
  DeviceCopier* copier = nullptr;  ///< our device; required
  std::string thread_name = "copies";
  /// Places that are smaller are granted beneath: a copy takes two messages, and a GPU's a thread.
  size_t min_bytes = 1;
  /// Whether device memory is also registered with the transport beneath, for peers that it reaches.
  bool register_beneath = false;
  /// Reports how the tensors of a pair travel; once for each connection of one of `peers`, unless it closes first.
  /// Progress thread.
  std::function<void(Rank peer, const CopyRoad& road)> on_settled = [](Rank, const CopyRoad&) {};
  /// A copy failed with kInternal: our device is taken for broken. On the thread that copies.
  std::function<void(const Status& status)> on_failure = [](const Status&) {};
};

/// A transport around another one ("beneath"): between two nodes of one host that reach each other's memory, of GPUs or
/// of the host, tensors are copied from one to the other, and the transport beneath carries the messages about them;
/// everything else is passed on to it. The handler sees no difference: a RemoteGrant knows by which way it came, and
/// its Write goes the same way. The handler is called on the progress thread beneath; a thread of its own copies, or
/// feeds the GPU, but for small copies of the host's memory, which Write makes itself. Messages, states, and how the
/// end of a grant differs from other transports': transport/README.md.
class CopyTransport : public Transport, private TransportHandler {
 public:
  /// @param beneath not started yet; Start and Stop of this start and stop it. It and the copier must outlive this.
  CopyTransport(Transport* beneath, CopyOptions options);
  ~CopyTransport() override { Stop(); }

  /// Whether `peer` gets an OFFER when it connects, so that on_settled follows.
  bool Asks(Rank peer) const { return options_.peers.contains(peer); }
  /// Whether tensors to and from `peer` are copied; final from on_settled on. Any thread.
  bool Copies(Rank peer) const HP_EXCLUDES(mutex_);

  // Transport's methods; comments only where their contract is narrower.
  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  /// Beneath; and for copies the whole allocation, where peers can open it (DeviceCopier::FindShared).
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override HP_EXCLUDES(mutex_);
  StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) override HP_EXCLUDES(mutex_);
  /// By copies if the pair copies and `place` is not small and lies in memory that peers can open; else beneath.
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override;
  /// @param source for a grant that is fulfilled by a copy from a GPU: in registered device memory (kInvalidArgument
  /// otherwise).
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override;
  Status CancelGrant(Rank peer, RemoteGrant grant) override;
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void Flush(Rank peer) override { beneath_->Flush(peer); }
  int64_t LastHeardNs(Rank peer) const override { return beneath_->LastHeardNs(peer); }
  int64_t LastSentNs(Rank peer) const override { return beneath_->LastSentNs(peer); }
  void Shutdown(Rank peer) override;
  void Break(Rank peer, const Status& cause) override { beneath_->Break(peer, cause); }
  void Defer(std::function<void()> event) override { beneath_->Defer(std::move(event)); }
  /// Waits for our own copies, then closes the connections. A peer's copies into our memory end with its own Stop.
  void Stop() override;

 private:
  class Registration;

  std::shared_ptr<CopyLink> Find(Rank peer) const HP_EXCLUDES(mutex_);
  Status CheckOpen(Rank peer) const;
  const CopyMemory* FindMemory(std::span<const std::byte> part) const HP_REQUIRES(mutex_);
  std::unique_ptr<MemoryRegion> Keep(std::span<std::byte> memory, std::string handle,
                                     std::unique_ptr<MemoryRegion> beneath) HP_EXCLUDES(mutex_);
  void Forget(const std::byte* memory) HP_EXCLUDES(mutex_);
  /// Whether what beneath says of `peer` is for a connection that the handler does not know, or not any more.
  bool Ignored(Rank peer) const;

  // TransportHandler
  void OnConnected(Rank peer) override HP_EXCLUDES(mutex_);
  void OnConnectFailed(Rank peer, const Status& status) override { handler_->OnConnectFailed(peer, status); }
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override;
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void OnClosed(Rank peer, const Status& status) override;
  void OnOutOfMemory(const Status& status) override { handler_->OnOutOfMemory(status); }

  Transport* const beneath_;
  const CopyOptions options_;
  TransportHandler* handler_ = nullptr;
  CopyQueue queue_;
  CopyOffer offer_;  // ours

  mutable Mutex mutex_;  // outermost, not held across a post
  std::map<Rank, std::shared_ptr<CopyLink>> links_ HP_GUARDED_BY(mutex_);
  struct Kept {
    CopyMemory memory;
    int registrations = 0;
  };
  std::map<const std::byte*, Kept> memory_ HP_GUARDED_BY(mutex_);  // by its begin
  uint32_t next_region_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace hp
