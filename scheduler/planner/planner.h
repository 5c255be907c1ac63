#pragma once

#include "hp/status.h"
#include "scheduler/planner/table_plan.h"

#include <optional>
#include <string>
#include <vector>

namespace hp {

/// The plans that are worth a look, the choice first.
struct PlanChoice {
  std::vector<TablePlan> plans;       ///< by seconds(); all fit into memory; not empty
  std::optional<TablePlan> one_node;  ///< the fastest of each kind that fits
  std::optional<TablePlan> data_parallel;
  int64_t considered = 0;  ///< predictions made
};

/// Chooses how to train a net on some hosts: one node, replicas alone, or replicas and shards of the net's tail behind
/// any of its InnerProducts, and of its side classifiers, on separate nodes or beside each other; which splits, how
/// many micro-batches, which share of the batch each host gets; whether replicas sum their gradients among themselves
/// or by parameter servers. On up to kMostChained places also chains (ChainPlanner): conv layers cut in several stages,
/// two FC stages. The fastest by prediction wins, but a simpler kind or fewer hosts if they are within 2%. A pure
/// function of the problem. A second for 1,000 hosts.
/// @return kInvalidArgument: the net is faulty, has no batch size, or no table fits into the hosts' memory: names the
/// host, what it has and what it lacks.
StatusOr<PlanChoice> ChoosePlan(const PlanProblem& problem);
/// Chains are predicted so roughly that they have to be simulated, which takes too long for more nodes.
constexpr int kMostChained = 16;

/// The plan with another number of micro-batches, predicted anew and not simulated; nothing: a replica has too few
/// samples for so many, or they do not fit into memory.
std::optional<TablePlan> WithMicroBatches(const PlanProblem& problem, const TablePlan& plan, int micro_batches);

/// Puts the fastest first, by seconds(); a simpler kind, or fewer nodes, if they are within 2%.
void SortPlans(std::vector<TablePlan>* plans);

/// The reasons, for a terminal: the choice, what each kind of host does in an iteration, the bottleneck and the
/// distance to the limit, one machine and plain data parallelism beside it, and the next best tables.
std::string DescribeChoice(const PlanProblem& problem, const PlanChoice& choice);

}  // namespace hp
