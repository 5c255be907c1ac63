#pragma once

#include "base/mutex.h"
#include "base/payload.h"
#include "scheduler/control/exchange_rules.h"
#include "solvers/exchange/served_links.h"
#include "transport/transport.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// The links between a replica and its parameter servers, or a server and its replicas, over the node's own
/// connections. A gradient's place has a tag of the conv stage, a value's one of the server stage (ExchangeTag). Owned
/// by the node, which hands it what the transport reports of such tags.
class ServerLinks : public ServedLinks {
 public:
  struct Options {
    Transport* transport = nullptr;      ///< must outlive the links
    std::vector<Rank> peers;             ///< by index of the server or replica
    int granted_stage = 0;               ///< of the places that we grant: on a server the conv stage
    std::vector<ExchangePlaces> places;  ///< of the peers, to which we write: what each grants us
  };
  explicit ServerLinks(Options options);

  /// What PeerRules compares grants with. All of them have one stage: that of what we write.
  const std::vector<ExchangePlaces>& places() const { return options_.places; }
  int granted_stage() const { return options_.granted_stage; }
  int written_stage() const { return options_.places.front().stage; }

  void Begin(ServedEvents* events) override { events_ = events; }
  StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) override;
  void Grant(int peer, const LinkPlace& place, std::span<float> memory) override HP_EXCLUDES(mutex_);
  void Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) override
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
  const Options options_;
  std::map<Rank, int> index_;       // of peers
  ServedEvents* events_ = nullptr;  // set before the Gate opens

  mutable Mutex mutex_;
  std::map<std::pair<int, LinkPlace>, size_t> granted_ HP_GUARDED_BY(mutex_);  // by peer, in bytes
  std::map<Rank, Payload> payload_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
