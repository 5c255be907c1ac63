#pragma once

#include "hp/status.h"
#include "scheduler/plan/table_maker.h"
#include "scheduler/planner/ordered_hosts.h"
#include "scheduler/planner/predict.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What a plan is made for.
struct PlanProblem {
  std::shared_ptr<const caffe::NetParameter> net;  ///< the whole prototxt
  Shape sample;                                    ///< [C, H, W] of one sample after its transformation
  Hosts hosts;                                     ///< with their profiles (LoadProfiles)
  Workload work;
};

/// A stage of a chain.
struct ChainStage {
  int first = 0;  ///< its first layer, by index among the layers of the unfiltered prototxt
  bool conv = true;
  int nodes = 1;
};

/// A table, by its numbers, and what it will do.
struct TablePlan {
  std::shared_ptr<const DividedNet> net = nullptr;  ///< null of a chain
  /// The stages of a table of more than a conv stage and an FC stage, in the order of the net, conv stages first; else
  /// empty. Each has nodes of its own, and `nodes` has all of one kind, stage by stage.
  std::vector<ChainStage> chain = {};
  bool beside = false;  ///< shard i lies on the node of replica i; those beyond have nodes of their own
  int micro_batches = 1;
  NodePlaces nodes = {};
  std::vector<int> shares = {};  ///< of the batch, by replica; empty: all alike
  std::vector<HostGroup> groups = {};
  Prediction prediction = {};
  std::optional<double> simulated_s = {};  ///< an iteration's seconds by a simulation; nothing: there was none

  /// Of an iteration, as well as they are known.
  double seconds() const { return simulated_s.value_or(prediction.seconds); }
  double samples_per_second() const { return prediction.samples / seconds(); }
  /// Of all stages.
  int replicas() const { return static_cast<int>(nodes.conv.size()); }
  int shards() const { return net ? net->division().shards : static_cast<int>(nodes.fc.size()); }
  int servers() const { return static_cast<int>(nodes.ps.size()); }
  /// Of each node of the table, by rank: index into Hosts::places.
  std::vector<int> places() const;
  /// Whether it is one process, and whether it is plain data parallelism.
  bool one_node() const { return chain.empty() && replicas() == 1 && shards() == 0; }
  bool data_parallel() const { return chain.empty() && replicas() > 1 && shards() == 0 && servers() == 0; }
};

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

/// What MakeTable needs to write the table of `plan`. The caller sets solver, port, job and tls.
TableRequest RequestOf(const PlanProblem& problem, const TablePlan& plan);

/// The reasons, for a terminal: the choice, what each kind of host does in an iteration, the bottleneck and the
/// distance to the limit, one machine and plain data parallelism beside it, and the next best tables.
std::string DescribeChoice(const PlanProblem& problem, const PlanChoice& choice);

}  // namespace hp
