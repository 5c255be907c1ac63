#pragma once

#include "base/mutex.h"
#include "engine/stage_exchange.h"
#include "solvers/exchange/parameter_server.h"
#include "solvers/param_store.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace hp {

/// A parameter server's part of a conv stage, by parameter groups: an event (on_gradients) says when the gradients of
/// all replicas are here; the update's task sums them (Sum), and sends the new values (Serve). Nothing here waits for
/// another node. Owned by the node, which connects it before training begins.
class StageServer {
 public:
  /// Gradients of all replicas, for all parameters of the group, are here. Once for each group and clock, in any order.
  /// On the transport's thread or in Serve, under no lock; must not block.
  using GradientsSink = std::function<void(int64_t clock, int stage, int group)>;
  using Connect =
      std::function<StatusOr<std::unique_ptr<ParameterServer>>(ParameterServer::GradientsSink on_gradients)>;

  /// Calls `connect` once. Main thread. @param stage the server stage. @param groups of ExchangedGroupsOf.
  /// @param params what is updated; must outlive it. @return the error of `connect`.
  static StatusOr<std::unique_ptr<StageServer>> Create(int stage, ExchangedGroups groups, ParamStore* params,
                                                       const Connect& connect, GradientsSink on_gradients);

  /// ParameterServer::Start: replicas may send from now on.
  void Start() { server_->Start(); }
  /// Adds the replicas' gradients of the group for `clock` into the ParamStore, in the order of replicas: the same bits
  /// whatever the order of arrival and the number of threads. Behind on_gradients, once. Executor thread, with its
  /// OpenMP team.
  void Sum(int64_t clock, int group);
  /// Sends the group's values, which are those after update `clock`. Behind Sum, once. Executor thread; never blocks.
  void Serve(int64_t clock, int group);

 private:
  StageServer(int stage, ExchangedGroups groups, ParamStore* params, GradientsSink on_gradients);
  void OnGradients(int64_t clock, int param) HP_EXCLUDES(mutex_);

  const int stage_;
  ParamStore* const params_;
  const GradientsSink on_gradients_;
  const ExchangedGroups groups_;
  std::map<int, int> group_of_;  // by parameter
  Mutex mutex_;                  // not held while the server or a callback is called
  std::map<std::pair<int64_t, int>, size_t> here_ HP_GUARDED_BY(mutex_);  // by clock, group: parameters that are here
  std::unique_ptr<ParameterServer> server_;                               // last: its callbacks end before the rest
};

}  // namespace hp
