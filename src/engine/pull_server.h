#pragma once

#include "base/mutex.h"
#include "engine/gathered_model.h"
#include "transport/transport.h"

#include <map>
#include <memory>
#include <vector>

namespace hp {

/// Gives the weights of a running job to clients (model_test), chunk by chunk as they ask, from a copy that was made
/// between two updates. A slow client costs the memory of the copy; a dead one nothing. Lives on the first node.
class PullServer {
 public:
  /// `transport` outlives it.
  explicit PullServer(Transport* transport) : transport_(transport) {}

  /// A client asks for the weights, or for its next chunk. Progress thread.
  void OnRequest(Rank client) HP_EXCLUDES(mutex_);
  void OnGone(Rank client) HP_EXCLUDES(mutex_);
  /// Whether somebody waits for weights that were not ordered yet; true once for each order.
  bool TakeOrder() HP_EXCLUDES(mutex_);
  void OnGathered(std::shared_ptr<const GatheredModel> model) HP_EXCLUDES(mutex_);

 private:
  struct Client {
    std::shared_ptr<const GatheredModel> model;  // null: waits for one
    bool ordered = false;
    size_t param = 0;
    int64_t offset = 0;  // floats
  };
  void SendNext(Rank rank, Client* client) HP_REQUIRES(mutex_);

  Transport* const transport_;
  Mutex mutex_;
  std::vector<float> values_ HP_GUARDED_BY(mutex_);  // of one chunk
  std::map<Rank, Client> clients_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
