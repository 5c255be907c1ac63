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

/// The parameters with a gradient, of each unit (index into PipelinePlan::units) of a stage that is exchanged.
using ExchangedUnits = std::map<int, std::vector<int>>;
ExchangedUnits ExchangedUnitsOf(const NodeModel& model, int stage, const ParamStore& params);

/// The exchange of one stage of this node, as the pipeline sees it: whole units go in, and an event says when all
/// parameters of one are sums. Owned by the node, which connects it before training begins.
class StageExchange {
 public:
  struct Callbacks {
    /// All gradients of the unit are the sums of `clock`. On a thread of the exchange, under no lock; must not block.
    std::function<void(int64_t clock, int stage, int unit)> on_exchanged;
    std::function<void(const Status&)> on_failure;  ///< Exchange::Callbacks::on_failure
  };
  using Connect = std::function<StatusOr<std::unique_ptr<Exchange>>(Exchange::Callbacks callbacks)>;

  /// Blocks until all replicas of the stage are connected. @param params must outlive it.
  /// @return null: there are no units, `connect` was not called; or what `connect` says.
  static StatusOr<std::unique_ptr<StageExchange>> Create(int stage, ExchangedUnits units, ParamStore* params,
                                                         const Connect& connect, Callbacks callbacks);

  /// The gradients of `unit` are final on this node; the unit's norm and update wait for on_exchanged. The units of a
  /// clock in one order that the net fixes, each once. Executor thread; never blocks.
  void Add(int64_t clock, int unit) HP_EXCLUDES(mutex_);
  /// Exchange::Abort. Any thread.
  void Abort(const Status& cause) { exchange_->Abort(cause); }

 private:
  StageExchange(int stage, ExchangedUnits units, ParamStore* params, Callbacks callbacks);
  void OnExchanged(int64_t clock, int param) HP_EXCLUDES(mutex_);

  const int stage_;
  ParamStore* const params_;
  const Callbacks callbacks_;
  const ExchangedUnits units_;
  std::map<int, int> unit_of_;  // by parameter
  size_t added_ = 0;            // units of the clock under way; executor
  Mutex mutex_;
  std::map<std::pair<int64_t, int>, size_t> missing_ HP_GUARDED_BY(mutex_);  // by clock, unit: parameters under way
  std::unique_ptr<Exchange> exchange_;                                       // last: its callbacks end before the rest
};

}  // namespace hp
