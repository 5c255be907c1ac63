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

/// Which tensors of a node with a GPU go by copies, and whom to tell.
struct CopyOptions {
  /// The nodes whose tensors may go from GPU to GPU: they ask us as we ask them.
  std::set<Rank> peers;
  DeviceCopier* copier = nullptr;  ///< our GPU
  std::string thread_name = "copies";
  /// Device memory is registered beneath, too, for the peers that are reached there.
  bool register_beneath = false;
  /// How the tensors of a pair travel; once for each of `peers` that stays connected so long. Progress thread.
  std::function<void(Rank peer, const CopyRoad& road)> on_settled = [](Rank, const CopyRoad&) {};
  /// Our GPU failed in a copy. From a thread of the transport.
  std::function<void(const Status& status)> on_failure = [](const Status&) {};
};

/// A transport around another: between two GPUs of one host that reach each other, tensors are copied from GPU to GPU,
/// and the other transport carries what is said about them; everything else it does itself. The handler hears of both
/// roads alike; a RemoteGrant tells which one it came by, and a Write takes the same. Two threads report: the progress
/// thread beneath calls the handler, and a thread of its own talks to the GPU. Bytes, states, and what is different
/// about the end of a grant: transport/README.md.
class CopyTransport : public Transport, private TransportHandler {
 public:
  /// @param beneath not started; it and the copier must outlive this.
  CopyTransport(Transport* beneath, CopyOptions options);
  ~CopyTransport() override { Stop(); }

  /// Whether `peer` is asked when it connects, so that on_settled follows.
  bool Asks(Rank peer) const { return options_.peers.contains(peer); }
  /// Whether tensors to and from `peer` go from GPU to GPU: final when on_settled said so.
  bool Copies(Rank peer) const HP_EXCLUDES(mutex_);

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override;
  StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) override HP_EXCLUDES(mutex_);
  /// From GPU to GPU if the pair copies and `place` lies in registered device memory.
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override;
  /// @param source of a grant that is copied: in registered device memory.
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override;
  Status CancelGrant(Rank peer, RemoteGrant grant) override;
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  int64_t LastHeardNs(Rank peer) const override { return beneath_->LastHeardNs(peer); }
  void Shutdown(Rank peer) override;
  void Break(Rank peer, const Status& cause) override { beneath_->Break(peer, cause); }
  void Defer(std::function<void()> event) override { beneath_->Defer(std::move(event)); }
  /// Waits for our own copies before any connection closes. A peer's copies into our memory end with its own Stop.
  void Stop() override;

 private:
  class Registration;

  std::shared_ptr<CopyLink> Find(Rank peer) const HP_EXCLUDES(mutex_);
  Status CheckOpen(Rank peer) const;
  const CopyMemory* FindMemory(std::span<const std::byte> part) const HP_REQUIRES(mutex_);
  void Forget(uint32_t region) HP_EXCLUDES(mutex_);
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

  Transport* const beneath_;
  const CopyOptions options_;
  TransportHandler* handler_ = nullptr;
  CopyQueue queue_;
  CopyOffer offer_;  // ours

  mutable Mutex mutex_;  // outermost, not held across a post
  std::map<Rank, std::shared_ptr<CopyLink>> links_ HP_GUARDED_BY(mutex_);
  std::map<const std::byte*, CopyMemory> memory_ HP_GUARDED_BY(mutex_);  // by its begin
  uint32_t next_region_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace hp
