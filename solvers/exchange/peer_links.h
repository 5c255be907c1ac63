#pragma once

#include "hp/status.h"
#include "solvers/exchange/link_place.h"
#include "tensor/buffer.h"

#include <cstddef>
#include <memory>
#include <span>

namespace hp {

/// What the links of an exchange report. Any thread, one call at a time; returns at once, and may be called from within
/// a post. @param peer index among those with whom the exchange is: of a replica in its stage, or of a server.
class PeerEvents {
 public:
  virtual ~PeerEvents() = default;
  /// `peer` has granted us `place`.
  virtual void OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) = 0;
  /// `peer` has filled `place`, which we granted.
  virtual void OnArrived(int peer, const LinkPlace& place) = 0;
  /// A write of ours to `peer` has ended: its source may be changed.
  virtual void OnWritten(int peer, const LinkPlace& place) = 0;
  /// A link broke while a grant or a write was open. May be called again.
  virtual void OnBroken(const Status& status) = 0;
};

/// The links of a node to those with whom it exchanges gradients: to other replicas of its stage (in a ring bytes come
/// from the left neighbour and go to the right one), or between replicas and parameter servers. Implemented over the
/// node's own connections (src/node/exchange_links.h). Posts do not block, and may come from any thread.
class PeerLinks {
 public:
  virtual ~PeerLinks() = default;
  /// From now on `events` hears of what happens. Once, before any post; it must outlive the last event.
  virtual void Begin(PeerEvents* events) = 0;
  /// Zeroed memory of the host, for Register: such as peers of this host may copy into, where the node has it.
  /// @return kResourceExhausted: out of memory.
  virtual StatusOr<Buffer> Allocate(size_t bytes) { return Buffer::Allocate(bytes); }
  /// Makes host memory usable for places and sources. @return keeps it so until it is destroyed, ahead of the memory.
  /// kFailedPrecondition: it can't be registered.
  virtual StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) = 0;
  /// Lets `peer` fill `memory` once. OnArrived follows. @return kUnavailable: it is gone.
  virtual Status Grant(int peer, const LinkPlace& place, std::span<std::byte> memory) = 0;
  /// Writes `source` into what `peer` granted (OnGranted). OnWritten follows. @return kUnavailable: it is gone.
  virtual Status Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const std::byte> source) = 0;
};

/// Logs a post that failed, where nothing waits for its end but what ends with the job, too: the failure detector ends
/// it, or whoever makes the links.
void WarnOfPost(const Status& status);

}  // namespace hp
