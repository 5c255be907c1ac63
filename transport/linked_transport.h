#pragma once

#include "base/mutex.h"
#include "transport/transport.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace hp {

/// The connection to one peer, whatever carries it. The transport's table and the link's own pending events own it
/// together. Posts come from any thread and follow the contract of Transport, function by function; a link that is
/// closed answers all of them with kUnavailable.
class PeerLink {
 public:
  virtual ~PeerLink() = default;
  virtual Status Grant(const PlaceTag& tag, std::span<std::byte> place) = 0;
  virtual Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) = 0;
  virtual Status CancelGrant(RemoteGrant grant) = 0;
  virtual Status Send(uint32_t type, std::span<const std::byte> bytes) = 0;
  virtual void Flush() {}
  /// Ends the sending side behind all that is queued; any thread, no effect the second time.
  virtual void Shutdown() = 0;
  /// Closes with kUnavailable and what `cause` says. Progress thread.
  virtual void Break(const Status& cause) = 0;
  /// By the transport's clock; 0: never. Any thread, without a lock: the failure detector asks often.
  virtual int64_t LastHeardNs() const = 0;
  virtual int64_t LastSentNs() const = 0;  ///< likewise
  /// Whether it accepts nothing any more; OnClosed may be under way still. Any thread.
  virtual bool closed() const = 0;
  /// Closes without a report, after the progress thread has ended.
  virtual void Abandon() = 0;
};

/// A transport that has a link for each peer and hands posts on to it. What remains for the concrete transport is how
/// links come about: Start, Defer and Stop. A peer without a link, or with one that is closed, is not connected:
/// posts to it return kUnavailable. The table's lock is outermost and held for the look-up only.
class LinkedTransport : public Transport {
 public:
  /// For links that reach all memory of the host: nothing to do.
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override;
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override;
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override;
  Status CancelGrant(Rank peer, RemoteGrant grant) override;
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void Flush(Rank peer) override;
  int64_t LastHeardNs(Rank peer) const override;
  int64_t LastSentNs(Rank peer) const override;
  void Shutdown(Rank peer) override;
  void Break(Rank peer, const Status& cause) override;

 protected:
  /// Whether `peer` has a link that is not closed.
  bool HasOpenLink(Rank peer) const HP_EXCLUDES(mutex_);
  /// Makes `link` the one to `peer`, in place of a closed one; ahead of its OnConnected, in which the handler may post.
  /// Progress thread.
  void AddLink(Rank peer, std::shared_ptr<PeerLink> link) HP_EXCLUDES(mutex_);
  /// Abandons and forgets all links: for Stop, after the progress thread has ended.
  void AbandonLinks() HP_EXCLUDES(mutex_);

 private:
  std::shared_ptr<PeerLink> Find(Rank peer) const HP_EXCLUDES(mutex_);

  mutable Mutex mutex_;  // outermost
  std::map<Rank, std::shared_ptr<PeerLink>> links_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
