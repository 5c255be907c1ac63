#pragma once

#include "base/mutex.h"
#include "model/node_model.h"
#include "solvers/exchange/exchange.h"
#include "solvers/param_store.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace hp {

/// By parameter group (index into PipelinePlan::groups) whose gradients a stage's replicas sum: the group's parameters
/// that have a gradient, as indices into the ParamStore.
using ExchangedGroups = std::map<int, std::vector<int>>;
/// The groups of `stage` that this node exchanges. Empty: the stage is an FC stage or has one node, or nothing learns.
ExchangedGroups ExchangedGroupsOf(const NodeModel& model, int stage);
/// The parameters of `groups` in the order in which backward passes make their gradients final, which is that of the
/// stage's Exchange::Add in every clock: segments and the layers in them from the last to the first.
std::vector<int> ExchangedParamsOf(const NodeModel& model, const ExchangedGroups& groups);

/// The allreduce of one data-parallel stage, by parameter groups: groups go in (Add) as the backward pass makes them
/// final, and an event (on_exchanged) says when all gradients of one are the sums over the stage's replicas. Nothing
/// here waits for another replica. Owned by the node, which connects it before training begins.
class StageExchange {
 public:
  struct Callbacks {
    /// The gradients of all parameters of the group hold the sums for `clock`. Once for each Add, in any order, also
    /// before Add has returned; never after a failure. On a thread of the exchange, under no lock; must not block.
    std::function<void(int64_t clock, int stage, int group)> on_exchanged;
    /// Exchange::Callbacks::on_failure: once, on a thread of the exchange or in Add; must not block.
    std::function<void(const Status&)> on_failure;
  };
  /// Makes the exchange that does the sums, with callbacks of this class (MakeNodeExchange).
  using Connect = std::function<StatusOr<std::unique_ptr<Exchange>>(Exchange::Callbacks callbacks)>;

  /// Calls `connect` once, which blocks until all replicas of the stage are connected. Main thread.
  /// @param groups none of them empty. @param params the gradients; must outlive it.
  /// @param callbacks both set; what they call must outlive it.
  /// @return null: there are no groups, and `connect` was not called; else the error of `connect`.
  static StatusOr<std::unique_ptr<StageExchange>> Create(int stage, ExchangedGroups groups, ParamStore* params,
                                                         const Connect& connect, Callbacks callbacks);

  /// Gives the gradients of `group` to the exchange: on this node they are final for `clock`, and must not be read or
  /// written before on_exchanged. Each of the clock's groups once, in one order, the same on all replicas and in all
  /// clocks; the last one flushes what was held back to be summed together. Executor thread; never blocks; does nothing
  /// after a failure.
  void Add(int64_t clock, int group) HP_EXCLUDES(mutex_);
  /// Exchange::Abort: ends what is under way, without on_failure. Any thread.
  void Abort(const Status& cause) { exchange_->Abort(cause); }

 private:
  StageExchange(int stage, ExchangedGroups groups, ParamStore* params, Callbacks callbacks);
  void OnExchanged(int64_t clock, int param) HP_EXCLUDES(mutex_);

  const int stage_;
  ParamStore* const params_;
  const Callbacks callbacks_;
  const ExchangedGroups groups_;
  std::map<int, int> group_of_;  // by parameter
  size_t added_ = 0;             // groups of the clock under way; executor thread
  Mutex mutex_;                  // not held while the exchange or a callback is called
  std::map<std::pair<int64_t, int>, size_t> missing_ HP_GUARDED_BY(mutex_);  // by clock, group: parameters under way
  std::unique_ptr<Exchange> exchange_;                                       // last: its callbacks end before the rest
};

}  // namespace hp
