#pragma once

#include "base/mutex.h"
#include "transport/endpoint_core.h"
#include "transport/inproc/inproc_network.h"
#include "transport/inproc/mailbox.h"
#include "transport/linked_transport.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace hp {

class InprocLink;

/// One side of a link: the endpoint of one of its two nodes. Posts come from any thread; all that changes its state by
/// the peer (the On... functions) or ends it (Close) runs on the progress thread of its own node. Owned by its
/// InprocLink.
class InprocEndpoint : public PeerLink {
 public:
  /// @param side 0: the connecting one, 1: the accepting one. @param address our node's rank (a client's: that of the
  /// node that it connects to). @param other likewise of the other side, for messages. @param mailbox our progress
  /// thread's.
  InprocEndpoint(InprocLink* link, int side, Rank address, Rank other, std::shared_ptr<Mailbox> mailbox,
                 const InprocOptions& options)
      : link_(link),
        side_(side),
        address_(address),
        mailbox_(std::move(mailbox)),
        options_(options),
        core_("node " + std::to_string(other)) {}

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(core_.mutex);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override
      HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(core_.mutex);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(core_.mutex);
  void Shutdown() override HP_EXCLUDES(core_.mutex);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }
  int64_t LastSentNs() const override { return last_sent_ns_; }

  /// The handshake is done: accepts posts and reports OnConnected. @param peer the other side's rank as the policies
  /// decided; a client's is not its address.
  void Open(Rank peer, TransportHandler* handler) HP_EXCLUDES(core_.mutex);
  /// Ends all that is open with `status` and reports OnClosed; no effect when closed already.
  void Close(const Status& status) HP_EXCLUDES(core_.mutex);
  /// The same without a report, after the progress thread has ended.
  void Abandon() override HP_EXCLUDES(core_.mutex);
  bool open() const { return core_.open(); }
  bool closed() const override { return core_.closed(); }

  /// What an event keeps its order with: messages, grants and cancels; writes; or both (the end).
  enum class Lane { kControl, kBulk, kBoth };
  /// Queues an event that comes from the other side for this side's progress thread, delayed by InprocOptions::delay.
  /// Any thread.
  void Deliver(Lane lane, Mailbox::Event event) HP_EXCLUDES(lane_mutex_);
  Rank address() const { return address_; }
  Rank peer() const { return peer_; }

 private:
  InprocEndpoint* other() const;
  /// Queues a message, a grant or a cancel for the other side.
  void DeliverControl(Mailbox::Event event) HP_EXCLUDES(lane_mutex_);
  void OnGranted(const PlaceTag& tag, RemoteGrant grant, size_t bytes) HP_EXCLUDES(core_.mutex);
  void OnWrite(RemoteGrant grant, std::span<const std::byte> source, uint64_t id) HP_EXCLUDES(core_.mutex);
  void OnWriteDone(uint64_t id) HP_EXCLUDES(core_.mutex);
  void OnCancelled(RemoteGrant grant) HP_EXCLUDES(core_.mutex);
  void OnMessage(uint32_t type, std::span<const std::byte> bytes) HP_EXCLUDES(core_.mutex);
  void OnEnd() HP_EXCLUDES(core_.mutex);
  void CloseIfEnded() HP_EXCLUDES(core_.mutex);

  InprocLink* const link_;  // owns us
  const int side_;
  const Rank address_;  // of our node
  const std::shared_ptr<Mailbox> mailbox_;
  const InprocOptions& options_;  // the link's
  Rank peer_ = -1;                // progress thread
  TransportHandler* handler_ = nullptr;
  std::atomic<int64_t> last_heard_ns_ = 0;
  std::atomic<int64_t> last_sent_ns_ = 0;  // of what is not delayed behind bulk

  EndpointCore core_;
  std::map<uint64_t, PlaceTag> writes_ HP_GUARDED_BY(core_.mutex);
  uint64_t next_write_ HP_GUARDED_BY(core_.mutex) = 0;

  Mutex lane_mutex_;  // innermost but the mailbox's
  int64_t control_due_ns_ HP_GUARDED_BY(lane_mutex_) = 0;
  int64_t bulk_due_ns_ HP_GUARDED_BY(lane_mutex_) = 0;
};

/// The connection of two nodes: both endpoints. Owned by its queued events and by both transports' tables.
class InprocLink : public std::enable_shared_from_this<InprocLink> {
 public:
  InprocLink(Rank connector, std::shared_ptr<Mailbox> connector_mailbox, Rank acceptor,
             std::shared_ptr<Mailbox> acceptor_mailbox, const InprocOptions& options)
      : options_(options),
        sides_{InprocEndpoint(this, 0, connector, acceptor, std::move(connector_mailbox), options_),
               InprocEndpoint(this, 1, acceptor, connector, std::move(acceptor_mailbox), options_)} {}

  /// 0: the connecting node's endpoint, 1: the accepting one's.
  InprocEndpoint* side(int side) { return &sides_[side]; }
  /// Breaks the connection: no byte is copied after the call, and both sides close with `status`, after the events that
  /// are queued for them. Any thread; waits for a copy that is running.
  void Break(const Status& status) HP_EXCLUDES(copy_mutex_);
  /// Copies `source` to `place`, of the same size, unless the link is broken. @return whether it did.
  bool Copy(std::span<const std::byte> source, std::span<std::byte> place) HP_EXCLUDES(copy_mutex_);

 private:
  const InprocOptions options_;
  Mutex copy_mutex_;  // held while a source is read: whoever breaks the link waits for that
  bool broken_ HP_GUARDED_BY(copy_mutex_) = false;
  InprocEndpoint sides_[2];
};

}  // namespace hp
