#pragma once

#include "hp/status.h"
#include "scheduler/planner/table_plan.h"

#include <memory>
#include <optional>
#include <vector>

namespace hp {

/// Plans chains: tables whose conv stages, one or several, are cut anywhere in the net and lie on nodes of their own,
/// and so do the FC stages behind them, none to two. On slow links they can beat replicas of all conv layers, since
/// only what crosses the cuts goes over the network, and no gradient of a stage that has one node; and a net fits that
/// no host could hold. Chains are predicted by rough formulas (scheduler/README.md, "Chains"): which one is best is to
/// be simulated. Not for several threads at once.
class ChainPlanner {
 public:
  /// @param problem must outlive it. @return the errors of NetGraph::Create and NetGraph::Shapes.
  static StatusOr<std::unique_ptr<ChainPlanner>> Create(const PlanProblem& problem);
  ~ChainPlanner();

  /// The fastest chain of each number of stages and nodes, at most `most` of them, fastest first; without those that
  /// chains of fewer nodes are as fast as.
  /// @param order of places, in which stages take them.
  std::vector<TablePlan> Best(const std::vector<int>& order, size_t most);
  /// The plan, a chain, with another number of micro-batches; nothing: there are too few samples, or it does not fit.
  std::optional<TablePlan> WithMicroBatches(const TablePlan& plan, int micro_batches);
  /// Predictions that Best has made.
  int64_t considered() const;

 private:
  class Model;
  explicit ChainPlanner(std::unique_ptr<Model> model);
  std::unique_ptr<Model> model_;
};

}  // namespace hp
