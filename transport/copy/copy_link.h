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

/// How the tensors between two nodes with GPUs travel.
struct CopyRoad {
  std::string peer_device;  ///< "cuda:1"
  Status why_not;           ///< ok: from GPU to GPU
};

/// Memory of our GPU that was registered.
struct CopyMemory {
  uint32_t region = 0;
  std::span<std::byte> bytes;
  std::string handle;
};

/// What a link takes from its transport.
struct CopyLinkContext {
  Transport* beneath = nullptr;
  TransportHandler* handler = nullptr;
  DeviceCopier* copier = nullptr;
  CopyQueue* queue = nullptr;
  CopyOffer offer;  ///< ours
  std::function<void(Rank peer, const CopyRoad& road)> on_settled;
  std::function<void(const Status& status)> on_failure;
};

/// The connection to one peer with a GPU, as far as copies go. Posts from any thread; events on the progress thread
/// beneath; the GPU is asked on the copy queue's.
class CopyLink : public std::enable_shared_from_this<CopyLink> {
 public:
  CopyLink(Rank peer, const CopyLinkContext& context);

  /// Posts, as in Transport. @param place lies in `memory`. @param grant without the mark of our grants.
  Status Grant(const PlaceTag& tag, const CopyMemory& memory, std::span<std::byte> place) HP_EXCLUDES(core_.mutex);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) HP_EXCLUDES(core_.mutex);
  void Shutdown() HP_EXCLUDES(core_.mutex);

  /// @return kUnavailable: no post of any kind is accepted.
  Status CheckOpen() const HP_EXCLUDES(core_.mutex);
  /// Whether the pair copies.
  bool copies() const HP_EXCLUDES(core_.mutex);

  /// Events from beneath. OnConnected asks the peer. OnMessage: @return which rule the message breaks.
  void OnConnected();
  Status OnMessage(uint32_t type, std::span<const std::byte> bytes);
  void OnClosed(const Status& status) HP_EXCLUDES(core_.mutex);
  /// The connection beneath is closed; `reported`: and the handler knows.
  bool closed() const { return core_.closed(); }
  bool reported() const { return reported_; }
  /// Closes without a report, after progress thread and copy queue have ended.
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
  // On the copy queue's thread.
  Status BeginWrite(const RemotePlace& place, std::span<const std::byte> source) HP_EXCLUDES(core_.mutex);
  void EndWrite(const PlaceTag& tag, RemoteGrant grant, const Status& status);

  const Rank peer_;
  const CopyLinkContext context_;
  PeerRegions regions_;

  std::byte* probe_ = nullptr;  // the peer's, while it is open; the copy queue's thread
  // Progress thread.
  std::optional<CopyOffer> offer_;  // the peer's
  std::optional<Status> our_answer_, their_answer_;
  std::atomic<bool> reported_ = false;

  EndpointCore core_;  // its lock is held while a message is handed down: what is said of a grant keeps its order
  bool copies_ HP_GUARDED_BY(core_.mutex) = false;
  Status closed_status_ HP_GUARDED_BY(core_.mutex);
  std::set<uint32_t> exported_ HP_GUARDED_BY(core_.mutex);  // regions of ours that the peer was told of
};

/// What marks a RemoteGrant as one of ours: indices beneath are small.
constexpr uint32_t kCopyGrantBit = uint32_t{1} << 31;

}  // namespace hp
