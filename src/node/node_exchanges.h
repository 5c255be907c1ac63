#pragma once

#include "base/mutex.h"
#include "engine/stage_exchange.h"
#include "model/node_model.h"
#include "node/make_exchange.h"

#include <map>
#include <memory>
#include <vector>

namespace hp {

/// The exchanges of one node: one for each stage of which it is a replica among others and in which something learns.
/// Hands them what the transport reports of their tags.
///
/// Connect once, on the main thread, before anything but Abort; events on the progress thread.
class NodeExchanges {
 public:
  struct Options {
    const NodeModel* model = nullptr;
    ParamStore* params = nullptr;
    const NodeDevice* device = nullptr;
    Rendezvous* rendezvous = nullptr;  ///< ExchangeOptions::rendezvous
    Transport* transport = nullptr;
    StageExchange::Callbacks callbacks;  ///< of all of them
  };

  /// Connects all exchanges of the node's parts. Everything in `options` must outlive this object.
  /// @return the first error of MakeNodeExchange.
  Status Connect(const Options& options) HP_EXCLUDES(mutex_);
  /// StageExchange::Abort of all, also of those that connect later. Any thread; may be called again.
  void Abort(const Status& cause) HP_EXCLUDES(mutex_);

  /// By stage, for Compute.
  std::map<int, StageExchange*> by_stage() const HP_EXCLUDES(mutex_);
  /// Adds what all exchanges have moved over the node's connections, by peer; what NCCL moves is not counted. Any
  /// thread.
  void AddPayload(std::map<Rank, Payload>* payload) const;
  /// What peers grant, for PeerRules; none where NCCL sums.
  std::vector<ExchangePlaces> places() const;

  /// TransportHandler's events, of exchange tags (IsExchangeTag) that have passed PeerRules, or that were posted here.
  void OnGranted(const PlaceTag& tag, RemoteGrant grant);
  void OnGrantEnded(const PlaceTag& tag, const Status& status);
  void OnWriteEnded(const PlaceTag& tag, const Status& status);

 private:
  ExchangeLinks& LinksOf(const PlaceTag& tag) const;

  std::map<int, std::unique_ptr<ExchangeLinks>> links_;  // by stage; none where NCCL sums
  mutable Mutex mutex_;                                  // held while an exchange is aborted
  Status aborted_ HP_GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<StageExchange>> exchanges_ HP_GUARDED_BY(mutex_);  // by stage; use links_
};

}  // namespace hp
