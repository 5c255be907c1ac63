#pragma once

#include "net/plan/node_plan.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/pipeline_plan.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/schedule.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// A blob of parameters of the whole net and who owns which block of it: what snapshots and pulls are gathered by.
struct ParamOwners {
  std::string layer;
  int blob = 0;    ///< among the layer's blobs, in Caffe's order
  ParamSpec spec;  ///< shape and multipliers
  struct Slice {
    Rank owner = 0;
    Block block;
  };
  /// Together the whole blob, one for each owner, in the order of its ranks; replicas are owned by replica 0.
  std::vector<Slice> slices;
};

/// An output of the whole net and the stage that computes it (of replicas: each its own rows).
struct WholeOutput {
  std::string blob;
  int stage = 0;
  float loss_weight = 0;
  int index = 0;  ///< among the outputs of its stage's nodes
};

/// Everything that follows from a job's files alone: which ids a clock has, which layers run where and in which
/// segments, what crosses between whom, who owns which parameters. A pure function of (net, solver, table, shapes of
/// the samples), so every node, `hproute --check` and a planner get the same answers for any node of the table. Knows
/// no op, no backend, no connection. Immutable; any thread.
class JobPlan {
 public:
  struct Options {
    const RoutingTable* table = nullptr;  ///< must outlive the plan
    caffe::SolverParameter solver;
    std::shared_ptr<const caffe::NetParameter> net;    ///< unfiltered
    Shape train_shape, test_shape;                     ///< [C, H, W] of a sample; test: rank 0 if there are no tests
    const LayerTypes* types = &LayerTypes::BuiltIn();  ///< must outlive the plan
  };
  /// @return kInvalidArgument: a layer that can't be placed, shapes that don't fit, a batch too small for the table.
  static StatusOr<std::unique_ptr<JobPlan>> Create(const Options& options);

  const RoutingTable& table() const { return *options_.table; }
  const caffe::SolverParameter& solver() const { return options_.solver; }
  const Schedule& schedule() const { return *schedule_; }
  bool tests() const { return test_.graph != nullptr; }
  const NetGraph& graph(bool train) const { return *phase(train).graph; }
  const Placement& placement(bool train) const { return *phase(train).placement; }

  /// What node `rank` runs of a phase.
  const NodePlan& node(Rank rank, bool train) const { return phase(train).nodes.at(rank); }
  /// What its pipeline goes by. The pool is what hides the round trip of a boundary; memory may allow less (the engine
  /// knows), and a device may want `updates_together`.
  PipelinePlan pipeline(Rank rank) const;

  /// All parameters of the whole net, in the order of the layers.
  const std::vector<ParamOwners>& params() const { return params_; }
  const std::vector<WholeOutput>& outputs(bool train) const { return phase(train).outputs; }
  /// Nodes that must hear the labels of a replica's part, beside the replica itself.
  const std::set<Rank>& label_readers(bool train) const { return phase(train).label_readers; }
  /// Shapes of the whole net's blobs, for one sample.
  const std::vector<Shape>& shapes(bool train) const { return phase(train).shapes; }
  /// The node that adds up the statistics and prints them.
  Rank reporter() const { return reporter_; }

 private:
  struct Phase {
    std::unique_ptr<NetGraph> graph;
    std::unique_ptr<Placement> placement;
    std::vector<Shape> shapes;
    std::vector<NodePlan> nodes;  // by rank
    std::vector<WholeOutput> outputs;
    std::set<Rank> label_readers;
  };
  explicit JobPlan(const Options& options) : options_(options) {}
  const Phase& phase(bool train) const { return train ? train_ : test_; }
  Status MakeSchedule();
  Status PlanPhase(bool train, const StageLayout& layout, Phase* phase);
  void FindLabelReaders(Phase* phase);
  void FindOutputs(Phase* phase);
  void FindReporter();
  void FindParams();
  int PoolSize(Rank rank, const std::vector<int>& replicas) const;

  const Options options_;
  std::unique_ptr<Schedule> schedule_;
  Phase train_, test_;
  std::vector<ParamOwners> params_;
  Rank reporter_ = 0;
};

}  // namespace hp
