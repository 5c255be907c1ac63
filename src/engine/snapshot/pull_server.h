#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/snapshot/gathered_model.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// Gives the weights of a running job to clients (model_test), chunk by chunk as they ask, from a copy that was made
/// between two updates. Nobody waits for a client: one that is slow costs the memory of its copy, a dead one nothing.
/// Memory: at most kMaxModels copies. Clients that would need one more wait until another client is done, or has asked
/// for nothing for kIdleNs; that one then starts over if it asks again. Lives on the first node.
class PullServer {
 public:
  static constexpr size_t kMaxModels = 4;
  static constexpr int64_t kIdleNs = 30 * kNsPerSecond;

  /// Both outlive it.
  explicit PullServer(Transport* transport, const Clock* clock = Clock::Real())
      : transport_(transport), clock_(clock) {}

  /// A client asks for the weights, or for its next chunk. Progress thread.
  void OnRequest(Rank client) HP_EXCLUDES(mutex_);
  /// The client's connection has ended. Progress thread.
  void OnGone(Rank client) HP_EXCLUDES(mutex_);
  /// Whether somebody waits for weights, and a copy is to be ordered for all who do: true once for each copy, and not
  /// before the last one ordered is there. Executor, or the device's completion thread.
  bool TakeOrder() HP_EXCLUDES(mutex_);
  /// A copy that was ordered. Executor, progress or snapshot thread.
  void OnGathered(std::shared_ptr<const GatheredModel> model) HP_EXCLUDES(mutex_);

 private:
  struct Client {
    std::shared_ptr<const GatheredModel> model;  // null: waits for one
    bool ordered = false;
    size_t param = 0;
    int64_t offset = 0;  // floats
    int64_t asked_ns = 0;
  };
  /// @return false: that was the last chunk.
  bool SendNext(Rank rank, Client* client) HP_REQUIRES(mutex_);
  size_t models() const HP_REQUIRES(mutex_);
  void ForgetIdle() HP_REQUIRES(mutex_);

  Transport* const transport_;  // posted to under mutex_
  const Clock* const clock_;
  mutable Mutex mutex_;
  std::vector<float> values_ HP_GUARDED_BY(mutex_);  // of one chunk
  std::map<Rank, Client> clients_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
