#pragma once

#include "base/mutex.h"
#include "solvers/exchange/rendezvous.h"
#include "transport/transport.h"

#include <map>
#include <string>
#include <vector>

namespace hp {

/// The conv replicas' rendezvous over the node's own connections: every key is sent to all replicas. Any thread.
class NodeRendezvous : public Rendezvous {
 public:
  /// @param replicas ranks of the stage; our own is skipped.
  NodeRendezvous(Transport* transport, Rank self, std::vector<Rank> replicas)
      : transport_(transport), self_(self), replicas_(std::move(replicas)) {}

  Status Set(const std::string& key, const std::string& value) override;
  StatusOr<std::string> Get(const std::string& key) override HP_EXCLUDES(mutex_);
  /// A RendezvousMessage arrived.
  void OnMessage(std::string key, std::string value) HP_EXCLUDES(mutex_);
  /// Ends Get with `cause`.
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
