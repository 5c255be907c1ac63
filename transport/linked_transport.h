#pragma once

#include "base/mutex.h"
#include "transport/transport.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace hp {

/// The connection to one peer, whatever carries it. Posts from any thread, as in Transport.
class PeerLink {
 public:
  virtual ~PeerLink() = default;
  virtual Status Grant(const PlaceTag& tag, std::span<std::byte> place) = 0;
  virtual Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) = 0;
  virtual Status CancelGrant(RemoteGrant grant) = 0;
  virtual Status Send(uint32_t type, std::span<const std::byte> bytes) = 0;
  virtual void Shutdown() = 0;
  /// Closes with kUnavailable and what `cause` says. Progress thread.
  virtual void Break(const Status& cause) = 0;
  virtual int64_t LastHeardNs() const = 0;
  virtual bool closed() const = 0;
  /// Closes without a report, after the progress thread has ended.
  virtual void Abandon() = 0;
};

/// A transport that has a link for each peer and hands posts on to it. What remains to be said is how links come about.
class LinkedTransport : public Transport {
 public:
  /// For links that reach all memory of the host.
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override;
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override;
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override;
  Status CancelGrant(Rank peer, RemoteGrant grant) override;
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  int64_t LastHeardNs(Rank peer) const override;
  void Shutdown(Rank peer) override;
  void Break(Rank peer, const Status& cause) override;

 protected:
  /// Whether `peer` has a link that is not closed.
  bool HasOpenLink(Rank peer) const HP_EXCLUDES(mutex_);
  /// Ahead of the link's OnConnected, in which the handler may post.
  void AddLink(Rank peer, std::shared_ptr<PeerLink> link) HP_EXCLUDES(mutex_);
  /// After the progress thread has ended.
  void AbandonLinks() HP_EXCLUDES(mutex_);

 private:
  std::shared_ptr<PeerLink> Find(Rank peer) const HP_EXCLUDES(mutex_);

  mutable Mutex mutex_;  // outermost
  std::map<Rank, std::shared_ptr<PeerLink>> links_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
