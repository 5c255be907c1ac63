#pragma once

#include "base/mutex.h"
#include "base/payload.h"
#include "scheduler/control/peer_rules.h"
#include "solvers/exchange/ring_links.h"
#include "transport/transport.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>

namespace hp {

/// The links of a stage's ring over the node's own connections: each place is a grant of the transport, under a tag of
/// the exchange (ExchangeTag). Owned by the node, which hands it what the transport reports of such tags.
class ExchangeLinks : public RingLinks {
 public:
  /// @param transport must outlive it. @param left the neighbour that writes to us.
  /// @param places of the right neighbour, to which we write: what it grants us.
  ExchangeLinks(Transport* transport, Rank left, ExchangePlaces places)
      : transport_(transport), left_(left), places_(std::move(places)) {}

  /// What PeerRules compares grants with.
  const ExchangePlaces& places() const { return places_; }

  void Begin(RingEvents* events) override { events_ = events; }
  StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) override;
  Status Grant(const LinkPlace& place, std::span<float> memory) override HP_EXCLUDES(mutex_);
  Status Write(const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) override
      HP_EXCLUDES(mutex_);
  /// What was written and has arrived so far, by neighbour. Any thread.
  std::map<Rank, Payload> payload() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return payload_;
  }

  /// TransportHandler's events, of tags of this stage. Progress thread; the first also the main thread, when the Gate
  /// opens.
  void OnGranted(const PlaceTag& tag, RemoteGrant grant);
  void OnGrantEnded(const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);
  void OnWriteEnded(const PlaceTag& tag, const Status& status);

 private:
  PlaceTag TagOf(const LinkPlace& place) const;

  Transport* const transport_;
  const Rank left_;
  const ExchangePlaces places_;
  RingEvents* events_ = nullptr;  // set before the Gate opens

  mutable Mutex mutex_;
  std::map<LinkPlace, size_t> granted_ HP_GUARDED_BY(mutex_);  // to the left neighbour, in bytes
  std::map<Rank, Payload> payload_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
