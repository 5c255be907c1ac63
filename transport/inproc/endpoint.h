#pragma once

#include "base/mutex.h"
#include "transport/grants.h"
#include "transport/inproc/inproc_network.h"
#include "transport/inproc/mailbox.h"
#include "transport/linked_transport.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace hp {

class InprocLink;

/// One side of a link: the state of its node's endpoint. Posts from any thread; the On... functions and Close on the
/// progress thread of its own node.
class InprocEndpoint : public PeerLink {
 public:
  InprocEndpoint(InprocLink* link, int side, Rank address, std::shared_ptr<Mailbox> mailbox,
                 const InprocOptions& options)
      : link_(link), side_(side), address_(address), mailbox_(std::move(mailbox)), options_(options) {}

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(mutex_);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override HP_EXCLUDES(mutex_);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(mutex_);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(mutex_);
  void Shutdown() override HP_EXCLUDES(mutex_);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }

  /// The handshake is done; `peer` is the other side's rank. Calls OnConnected.
  void Open(Rank peer, TransportHandler* handler) HP_EXCLUDES(mutex_);
  /// Ends all that is open with `status`; no effect when closed already.
  void Close(const Status& status) HP_EXCLUDES(mutex_);
  /// The same without telling the handler.
  void Abandon() override HP_EXCLUDES(mutex_);
  bool open() const HP_EXCLUDES(mutex_);
  bool closed() const override HP_EXCLUDES(mutex_);

  enum class Lane { kControl, kBulk, kBoth };
  /// Queues `event` for this side's progress thread, on the way from the other side. Any thread.
  void Deliver(Lane lane, Mailbox::Event event) HP_EXCLUDES(lane_mutex_);
  Rank address() const { return address_; }
  Rank peer() const { return peer_; }

 private:
  InprocEndpoint* other() const;
  Status CheckOpen() const HP_REQUIRES(mutex_);
  void OnGranted(const PlaceTag& tag, RemoteGrant grant, size_t bytes) HP_EXCLUDES(mutex_);
  void OnWrite(RemoteGrant grant, std::span<const std::byte> source, uint64_t id) HP_EXCLUDES(mutex_);
  void OnWriteDone(uint64_t id) HP_EXCLUDES(mutex_);
  void OnCancelled(RemoteGrant grant) HP_EXCLUDES(mutex_);
  void OnMessage(uint32_t type, std::span<const std::byte> bytes) HP_EXCLUDES(mutex_);
  void OnEnd() HP_EXCLUDES(mutex_);
  void CloseIfEnded() HP_EXCLUDES(mutex_);

  enum class State { kHandshake, kOpen, kClosed };

  InprocLink* const link_;  // owns us
  const int side_;
  const Rank address_;  // of our node
  const std::shared_ptr<Mailbox> mailbox_;
  const InprocOptions& options_;  // the link's
  Rank peer_ = -1;                // progress thread
  TransportHandler* handler_ = nullptr;
  std::atomic<int64_t> last_heard_ns_ = 0;

  mutable Mutex mutex_;
  State state_ HP_GUARDED_BY(mutex_) = State::kHandshake;
  bool ended_here_ HP_GUARDED_BY(mutex_) = false;
  bool ended_there_ HP_GUARDED_BY(mutex_) = false;
  GrantTable grants_ HP_GUARDED_BY(mutex_);
  RemoteGrantTable remote_ HP_GUARDED_BY(mutex_);
  std::map<uint64_t, PlaceTag> writes_ HP_GUARDED_BY(mutex_);
  uint64_t next_write_ HP_GUARDED_BY(mutex_) = 0;

  Mutex lane_mutex_;  // innermost but the mailbox's
  int64_t control_due_ns_ HP_GUARDED_BY(lane_mutex_) = 0;
  int64_t bulk_due_ns_ HP_GUARDED_BY(lane_mutex_) = 0;
};

/// Two nodes' connection. Kept alive by its events and by both transports' tables.
class InprocLink : public std::enable_shared_from_this<InprocLink> {
 public:
  InprocLink(Rank connector, std::shared_ptr<Mailbox> connector_mailbox, Rank acceptor,
             std::shared_ptr<Mailbox> acceptor_mailbox, const InprocOptions& options)
      : options_(options),
        sides_{InprocEndpoint(this, 0, connector, std::move(connector_mailbox), options_),
               InprocEndpoint(this, 1, acceptor, std::move(acceptor_mailbox), options_)} {}

  InprocEndpoint* side(int side) { return &sides_[side]; }
  /// No byte is copied after this; both sides close with `status`, behind what is on the way to them. Any thread.
  void Break(const Status& status) HP_EXCLUDES(copy_mutex_);
  /// Copies unless the link is broken. @return whether it did.
  bool Copy(std::span<const std::byte> source, std::span<std::byte> place) HP_EXCLUDES(copy_mutex_);

 private:
  const InprocOptions options_;
  Mutex copy_mutex_;  // held while a source is read: whoever breaks the link waits for that
  bool broken_ HP_GUARDED_BY(copy_mutex_) = false;
  InprocEndpoint sides_[2];
};

}  // namespace hp
