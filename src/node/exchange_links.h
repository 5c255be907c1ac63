#pragma once

#include "base/mutex.h"
#include "base/payload.h"
#include "scheduler/control/exchange_rules.h"
#include "solvers/exchange/peer_links.h"
#include "tensor/device.h"
#include "transport/transport.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// The links of an exchange over the node's own connections: each place is a grant of the transport, under a tag of the
/// exchange (ExchangeTag). Among replicas both directions have the tags of their stage; between replicas and parameter
/// servers a gradient's place has a tag of the conv stage, a value's one of the server stage. Owned by the node, which
/// hands it what the transport reports of such tags.
class ExchangeLinks : public PeerLinks {
 public:
  struct Options {
    Transport* transport = nullptr;      ///< must outlive the links
    std::vector<Rank> peers;             ///< by index of the replica or server
    int granted_stage = 0;               ///< of the places that we grant
    std::vector<ExchangePlaces> places;  ///< of those to whom we write, of one stage: what each grants us
    Device* device = nullptr;            ///< the node's, for Allocate; null: memory that no peer copies into
  };
  explicit ExchangeLinks(Options options);

  /// What PeerRules compares grants with.
  const std::vector<ExchangePlaces>& places() const { return options_.places; }
  int granted_stage() const { return options_.granted_stage; }
  int written_stage() const { return options_.places.front().stage; }

  void Begin(PeerEvents* events) override { events_ = events; }
  StatusOr<Buffer> Allocate(size_t bytes) override;
  StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) override;
  Status Grant(int peer, const LinkPlace& place, std::span<std::byte> memory) override HP_EXCLUDES(mutex_);
  Status Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const std::byte> source) override
      HP_EXCLUDES(mutex_);
  /// What was written and has arrived so far, by node. Any thread.
  std::map<Rank, Payload> payload() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return payload_;
  }

  /// TransportHandler's events: a grant of the written stage, an arrival of the granted one, a write of the first.
  /// Progress thread; OnGranted also the main thread, when the Gate opens.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant);
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status);

 private:
  void Break(const Status& status);

  const Options options_;
  std::map<Rank, int> index_;     // of peers
  PeerEvents* events_ = nullptr;  // set before the Gate opens

  mutable Mutex mutex_;
  std::map<std::pair<int, LinkPlace>, size_t> granted_ HP_GUARDED_BY(mutex_);  // by peer, in bytes
  std::map<Rank, Payload> payload_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
