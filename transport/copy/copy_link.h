#pragma once

#include "base/mutex.h"
#include "transport/copy/copy_queue.h"
#include "transport/copy/messages.h"
#include "transport/copy/peer_regions.h"
#include "transport/endpoint_core.h"
#include "transport/transport.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace hp {

/// How the tensors between two nodes that might copy travel: by copies, or by the transport beneath.
struct CopyRoad {
  std::string peer_device;  ///< the peer's device, "cuda:1"
  Status why_not;           ///< ok: by copies; else why by the transport beneath
};

/// Registered memory of our device, in which we may grant places.
struct CopyMemory {
  uint32_t region = 0;         ///< its number in messages, unique in a transport
  std::span<std::byte> bytes;  ///< addresses of the device; a GPU's are not readable by the host
  std::string handle;          ///< by which the peer's copier opens it
};

/// What a link uses of its transport, which owns it and outlives the link.
struct CopyLinkContext {
  Transport* beneath = nullptr;
  TransportHandler* handler = nullptr;
  DeviceCopier* copier = nullptr;
  CopyQueue* queue = nullptr;
  CopyOffer offer;  ///< ours, sent at OnConnected
  // As in CopyOptions.
  std::function<void(Rank peer, const CopyRoad& road)> on_settled;
  std::function<void(const Status& status)> on_failure;
};

/// The part of the connection to one peer that concerns copies: whether the pair copies, grants in both directions,
/// regions, and the end. Posts come from any thread; events run on the progress thread of the transport beneath; the
/// device is used by the copy queue's jobs only. Pending events and copies own the link by shared_ptr.
/// transport/README.md, "Copies within a host", has messages and states.
class CopyLink : public std::enable_shared_from_this<CopyLink> {
 public:
  CopyLink(Rank peer, const CopyLinkContext& context);

  // Posts, with the contracts of Transport's methods of these names.

  /// @param place lies in `memory`.
  Status Grant(const PlaceTag& tag, const CopyMemory& memory, std::span<std::byte> place) HP_EXCLUDES(core_.mutex);
  /// @param grant without kCopyGrantBit, as for CancelGrant. @param source in memory that our device copies from.
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) HP_EXCLUDES(core_.mutex);
  void Shutdown() HP_EXCLUDES(core_.mutex);

  /// @return kUnavailable: the link accepts no posts, of either kind.
  Status CheckOpen() const HP_EXCLUDES(core_.mutex);
  /// Whether the pair copies; false until that is settled.
  bool copies() const HP_EXCLUDES(core_.mutex);

  // Events from beneath, on its progress thread.

  /// Sends our OFFER.
  void OnConnected();
  /// @param type of CopyMessage. @return kInvalidArgument: the message breaks a rule (named); the connection is then to
  /// be broken.
  Status OnMessage(uint32_t type, std::span<const std::byte> bytes);
  /// The connection beneath is closed: reports grants and OnClosed to the handler after the last copy to this peer.
  void OnClosed(const Status& status) HP_EXCLUDES(core_.mutex);
  /// Whether the connection beneath is closed; and whether the handler was told. Any thread.
  bool closed() const { return core_.closed(); }
  bool reported() const { return reported_; }
  /// Closes without a report; after the progress thread and the copy queue have ended.
  void Abandon() HP_EXCLUDES(core_.mutex);

 private:
  Status Send(CopyMessage type, const std::vector<std::byte>& body);
  Status OnOffer(const CopyOffer& offer);
  Status OnAnswer(const std::string& why_not);
  Status OnGrant(const CopyGrant& grant) HP_EXCLUDES(core_.mutex);
  Status OnGrantOver(RemoteGrant grant, const Status& status) HP_EXCLUDES(core_.mutex);
  /// Copies into the peer's probe, then answers.
  void Try(const std::string& handle) HP_EXCLUDES(core_.mutex);
  void CloseProbe();
  void Answer(const Status& why_not) HP_EXCLUDES(core_.mutex);
  void SettleIfDone() HP_EXCLUDES(core_.mutex);
  /// `done` when all copies to the peer that were begun are done and its memory is closed.
  void Leave(std::function<void()> done) HP_REQUIRES(core_.mutex);
  void ReportClosed(const Status& status) HP_EXCLUDES(core_.mutex);
  // Jobs of the copy queue.
  Status BeginWrite(const RemotePlace& place, std::span<const std::byte> source) HP_EXCLUDES(core_.mutex);
  void EndWrite(const PlaceTag& tag, RemoteGrant grant, const Status& status);

  const Rank peer_;
  const CopyLinkContext context_;
  PeerRegions regions_;

  std::byte* probe_ = nullptr;  // the peer's, while it is open; used by jobs of the copy queue
  // Progress thread.
  std::optional<CopyOffer> offer_;  // the peer's
  std::optional<Status> our_answer_, their_answer_;
  std::atomic<bool> reported_ = false;

  EndpointCore core_;  // its lock is held while a message is handed down: what is said of a grant keeps its order
  bool copies_ HP_GUARDED_BY(core_.mutex) = false;
  Status closed_status_ HP_GUARDED_BY(core_.mutex);
  std::set<uint32_t> exported_ HP_GUARDED_BY(core_.mutex);  // regions of ours that the peer was told of
};

/// Set in RemoteGrant::index of grants that are fulfilled by copies; indices of the transport beneath are smaller.
constexpr uint32_t kCopyGrantBit = uint32_t{1} << 31;

}  // namespace hp
