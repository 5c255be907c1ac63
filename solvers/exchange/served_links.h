#pragma once

#include "hp/status.h"
#include "solvers/exchange/link_place.h"

#include <cstddef>
#include <memory>
#include <span>

namespace hp {

/// What the links between replicas and parameter servers report; a peer is the index of the server, or of the replica.
/// Any thread, one call at a time; returns at once, and may be called from within a post. Transfers that a lost peer
/// leaves open are not reported: the failure detector ends the job.
class ServedEvents {
 public:
  virtual ~ServedEvents() = default;
  /// The peer has granted us `place`.
  virtual void OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) = 0;
  /// The peer has filled `place`, which we granted it.
  virtual void OnArrived(int peer, const LinkPlace& place) = 0;
  /// A write of ours to the peer has ended: its source may be changed.
  virtual void OnWritten(int peer, const LinkPlace& place) = 0;
};

/// The links of a replica to its parameter servers, or of a server to its replicas. Implemented over the node's own
/// connections (src/node/server_links.h). Posts do not block, and may come from any thread; one that fails is logged.
class ServedLinks {
 public:
  virtual ~ServedLinks() = default;
  /// From now on `events` hears of what happens. Once, before any post; it must outlive the last event.
  virtual void Begin(ServedEvents* events) = 0;
  /// Makes host memory usable for places and sources. @return keeps it so until it is destroyed, ahead of the memory.
  /// kFailedPrecondition: it can't be registered.
  virtual StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) = 0;
  /// Lets the peer fill `memory`, float32, once. OnArrived follows.
  virtual void Grant(int peer, const LinkPlace& place, std::span<float> memory) = 0;
  /// Writes `source`, float32, into what the peer granted (OnGranted). OnWritten follows.
  virtual void Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) = 0;
};

}  // namespace hp
