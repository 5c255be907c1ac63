#pragma once

#include "base/mutex.h"
#include "solvers/exchange/rendezvous.h"
#include "transport/transport.h"

#include <map>
#include <string>
#include <vector>

namespace hp {

/// The conv replicas' rendezvous over the node's own connections: every key is sent to all replicas, and each keeps
/// all. By it NCCL connects. Owned by the node. Any thread.
class NodeRendezvous : public Rendezvous {
 public:
  /// @param transport must outlive it. @param self our own rank.
  /// @param replicas ranks of the stage; our own is skipped.
  NodeRendezvous(Transport* transport, Rank self, std::vector<Rank> replicas)
      : transport_(transport), self_(self), replicas_(std::move(replicas)) {}

  /// All replicas must be connected. Does not block. @return Transport::Send's error: some replicas did not get it.
  Status Set(const std::string& key, const std::string& value) override;
  /// Blocks without a time limit until the key is set or Abort is called. @return the cause of Abort.
  StatusOr<std::string> Get(const std::string& key) override HP_EXCLUDES(mutex_);
  Status Check() override HP_EXCLUDES(mutex_);
  /// A RendezvousMessage of a replica arrived. Progress thread.
  void OnMessage(std::string key, std::string value) HP_EXCLUDES(mutex_);
  /// Ends every Get, also later ones, with `cause`, which must not be ok.
  void Abort(const Status& cause) HP_EXCLUDES(mutex_);

 private:
  Transport* const transport_;
  const Rank self_;
  const std::vector<Rank> replicas_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ HP_GUARDED_BY(mutex_);
  Status aborted_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
