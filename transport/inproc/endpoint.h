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

/// One side of a link: the state of its node's endpoint. Posts from any thread; the On... functions and Close on the
/// progress thread of its own node.
class InprocEndpoint : public PeerLink {
 public:
  /// @param address our node's rank. @param other the rank of the node on the other side.
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

  /// The handshake is done; `peer` is the other side's rank. Calls OnConnected.
  void Open(Rank peer, TransportHandler* handler) HP_EXCLUDES(core_.mutex);
  /// Ends all that is open with `status`; no effect when closed already.
  void Close(const Status& status) HP_EXCLUDES(core_.mutex);
  /// The same without telling the handler.
  void Abandon() override HP_EXCLUDES(core_.mutex);
  bool open() const { return core_.open(); }
  bool closed() const override { return core_.closed(); }

  enum class Lane { kControl, kBulk, kBoth };
  /// Queues `event` for this side's progress thread, on the way from the other side. Any thread.
  void Deliver(Lane lane, Mailbox::Event event) HP_EXCLUDES(lane_mutex_);
  Rank address() const { return address_; }
  Rank peer() const { return peer_; }

 private:
  InprocEndpoint* other() const;
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

  EndpointCore core_;
  std::map<uint64_t, PlaceTag> writes_ HP_GUARDED_BY(core_.mutex);
  uint64_t next_write_ HP_GUARDED_BY(core_.mutex) = 0;

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
        sides_{InprocEndpoint(this, 0, connector, acceptor, std::move(connector_mailbox), options_),
               InprocEndpoint(this, 1, acceptor, connector, std::move(acceptor_mailbox), options_)} {}

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
