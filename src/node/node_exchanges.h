#pragma once

#include "base/mutex.h"
#include "engine/stage_exchange.h"
#include "engine/stage_server.h"
#include "model/node_model.h"
#include "node/make_exchange.h"

#include <map>
#include <memory>
#include <vector>

namespace hp {

/// The exchanges of one node: one for each stage of which it is a replica, among others or with parameter servers, and
/// in which something learns; or that of the server that it is. Hands them what the transport reports of their tags.
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
    int64_t start_clock = 0;             ///< the first update of this run
    StageExchange::Callbacks callbacks;  ///< of all of them; on a server on_exchanged says that gradients are here
  };

  /// Connects all exchanges of the node's parts. Everything in `options` must outlive this object.
  /// @return the first error of the functions of make_exchange.h.
  Status Connect(const Options& options) HP_EXCLUDES(mutex_);
  /// StageExchange::Abort of all, also of those that connect later. Any thread; may be called again.
  void Abort(const Status& cause) HP_EXCLUDES(mutex_);

  /// Lets replicas send to the parameter server that this node is, if it is one. Once, when the callbacks may be
  /// called.
  void Start() {
    if (server_) server_->Start();
  }

  /// By stage, for Compute.
  std::map<int, StageExchange*> by_stage() const HP_EXCLUDES(mutex_);
  /// Null: the node is no parameter server.
  StageServer* server() const { return server_.get(); }
  /// Adds what all exchanges have moved over the node's connections, by peer; what NCCL moves is not counted. Any
  /// thread.
  void AddPayload(std::map<Rank, Payload>* payload) const;
  /// What peers grant, for PeerRules; none where NCCL sums.
  std::vector<ExchangePlaces> places() const;

  /// TransportHandler's events, of exchange tags (IsExchangeTag) that have passed PeerRules, or that were posted here.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant);
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status);
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status);

 private:
  StatusOr<std::unique_ptr<StageExchange>> ConnectPart(const Options& options, const StagePart& part);
  Status ConnectServer(const Options& options, const ExchangeOptions& exchange, const ExchangedGroups& groups);
  /// Those of a tag's stage.
  ExchangeLinks& LinksOf(const PlaceTag& tag) const;

  std::vector<std::unique_ptr<ExchangeLinks>> links_;  // by part; none where NCCL sums
  std::unique_ptr<StageServer> server_;                // uses links_
  mutable Mutex mutex_;                                // held while an exchange is aborted
  Status aborted_ HP_GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<StageExchange>> exchanges_ HP_GUARDED_BY(mutex_);  // by stage; use links_
};

}  // namespace hp
