#pragma once

#include "base/mutex.h"
#include "model/node_model.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/server_client.h"
#include "solvers/param_store.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hp {

/// By parameter group (index into PipelinePlan::groups) whose gradients a stage's nodes exchange: the group's
/// parameters that have a gradient, as indices into the ParamStore.
using ExchangedGroups = std::map<int, std::vector<int>>;
/// The groups of `stage` that this node exchanges (ParamGroupPlan::exchange). Empty: the stage is an FC stage, it has
/// one node and no servers, or nothing learns.
ExchangedGroups ExchangedGroupsOf(const NodeModel& model, int stage);
/// The parameters of `groups` in the order in which backward passes make their gradients final, which is that of the
/// stage's Exchange::Add in every clock: segments and the layers in them from the last to the first.
std::vector<int> ExchangedParamsOf(const NodeModel& model, const ExchangedGroups& groups);

/// What the replicas of one data-parallel stage do with their gradients, by parameter groups: groups go in (Add) as the
/// backward pass makes them final, and an event (on_exchanged) says when the exchange is done with all gradients of
/// one. They are then the sums over the stage's replicas; or, where parameter servers update (Pipeline: kPush), sent to
/// them, and the new values come with a second event (on_values) to whoever asked (Pull). Nothing here waits for
/// another node. Owned by the node, which connects it before training begins.
class StageExchange {
 public:
  struct Callbacks {
    /// Once for each Add, in any order, also before Add has returned; never after a failure. On a thread of the
    /// exchange or the transport's, under no lock; must not block.
    std::function<void(int64_t clock, int stage, int group)> on_exchanged;
    /// Once for each Pull, likewise. Only where parameter servers update.
    std::function<void(int64_t clock, int stage, int group)> on_values;
    /// Exchange::Callbacks::on_failure: once, on a thread of the exchange or in Add; must not block.
    std::function<void(const Status&)> on_failure;
  };
  /// Makes the exchange that does the sums, with callbacks of this class (MakeNodeExchange).
  using Connect = std::function<StatusOr<std::unique_ptr<Exchange>>(Exchange::Callbacks callbacks)>;
  /// Makes the replica's side of parameter servers, likewise.
  using ConnectServers = std::function<StatusOr<std::unique_ptr<ServerClient>>(ServerClient::Callbacks callbacks)>;

  /// Calls `connect` once, which blocks until all replicas of the stage are connected. Main thread.
  /// @param groups none of them empty. @param params the gradients; must outlive it.
  /// @param callbacks on_exchanged and on_failure set; what they call must outlive it.
  /// @return null: there are no groups, and `connect` was not called; else the error of `connect`.
  static StatusOr<std::unique_ptr<StageExchange>> Create(int stage, ExchangedGroups groups, ParamStore* params,
                                                         const Connect& connect, Callbacks callbacks);
  /// The same with parameter servers.
  static StatusOr<std::unique_ptr<StageExchange>> CreateServed(int stage, ExchangedGroups groups, ParamStore* params,
                                                               const ConnectServers& connect, Callbacks callbacks);

  /// Gives the gradients of `group` to the exchange: on this node they are final for `clock`, and must not be read or
  /// written before on_exchanged. Each of the clock's groups once, in one order, the same on all replicas and in all
  /// clocks; the last one flushes what was held back to be summed together. Executor thread; never blocks; does nothing
  /// after a failure.
  void Add(int64_t clock, int group) HP_EXCLUDES(mutex_);
  /// Of each of the gradients that Add(clock, group) gives to the exchange, in that order. Any thread.
  std::vector<size_t> BytesOf(int group) const;
  /// Lets the values of `group` after update `clock` come in: from now on nobody reads them before on_values. Packed
  /// copies of them are made anew. Only where parameter servers update (CHECK). Executor thread; never blocks.
  void Pull(int64_t clock, int group) HP_EXCLUDES(mutex_);
  /// Exchange::Abort: ends what is under way, without on_failure. Any thread. What parameter servers lack ends with the
  /// transport.
  void Abort(const Status& cause) {
    if (exchange_) exchange_->Abort(cause);
  }

 private:
  /// Parameters that are under way, by clock and group.
  using Missing = std::map<std::pair<int64_t, int>, size_t>;

  StageExchange(int stage, ExchangedGroups groups, ParamStore* params, Callbacks callbacks);
  /// @return the parameter's group if it was the last one of it.
  std::optional<int> EndOne(Missing* missing, int64_t clock, int param) HP_EXCLUDES(mutex_);
  void OnExchanged(int64_t clock, int param) HP_EXCLUDES(mutex_);
  void OnValues(int64_t clock, int param) HP_EXCLUDES(mutex_);

  const int stage_;
  ParamStore* const params_;
  const Callbacks callbacks_;
  const ExchangedGroups groups_;
  std::map<int, int> group_of_;  // by parameter
  size_t added_ = 0;             // groups of the clock under way; executor thread
  Mutex mutex_;                  // not held while the exchange or a callback is called
  Missing missing_ HP_GUARDED_BY(mutex_), missing_values_ HP_GUARDED_BY(mutex_);
  std::unique_ptr<ServerClient> client_;  // one of the two; last: their callbacks end before the rest
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace hp
