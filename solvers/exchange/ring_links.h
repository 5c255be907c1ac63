#pragma once

#include "hp/status.h"
#include "solvers/exchange/link_place.h"

#include <cstddef>
#include <memory>
#include <span>

namespace hp {

/// What the links report. Any thread, one call at a time; returns at once, and may be called from within a post.
class RingEvents {
 public:
  virtual ~RingEvents() = default;
  /// The right neighbour has granted us `place`.
  virtual void OnGranted(const LinkPlace& place, const LinkGrant& grant) = 0;
  /// The left neighbour has filled `place`, which we granted.
  virtual void OnArrived(const LinkPlace& place) = 0;
  /// A write of ours has ended: its source may be changed.
  virtual void OnWritten(const LinkPlace& place) = 0;
  /// A link broke while a grant or a write was open. May be called again.
  virtual void OnBroken(const Status& status) = 0;
};

/// The links of a replica to its two neighbours in the ring: bytes come from the left and go to the right. With two
/// replicas both are the same node. Implemented over the node's own connections (src/node/exchange_links.h). Posts do
/// not block, and may come from any thread.
class RingLinks {
 public:
  virtual ~RingLinks() = default;
  /// From now on `events` hears of what happens. Once, before any post; it must outlive the last event.
  virtual void Begin(RingEvents* events) = 0;
  /// Makes host memory usable for places and sources. @return keeps it so until it is destroyed, ahead of the memory.
  /// kFailedPrecondition: it can't be registered.
  virtual StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) = 0;
  /// Lets the left neighbour fill `memory`, float32, once. OnArrived follows. @return kUnavailable: it is gone.
  virtual Status Grant(const LinkPlace& place, std::span<float> memory) = 0;
  /// Writes `source`, float32, into what the right neighbour granted (OnGranted). OnWritten follows.
  /// @return kUnavailable: it is gone.
  virtual Status Write(const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) = 0;
};

}  // namespace hp
