#pragma once

#include "layers/labels.h"
#include "net/graph.h"
#include "net/node_net.h"
#include "net/placement.h"
#include "proto/caffe.pb.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/schedule.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// A blob of the whole net and who holds which block of it: what snapshots are gathered by.
struct WholeParam {
  StoredParam whole;  ///< all of it
  struct Slice {
    Rank owner = 0;
    Block block;
  };
  /// Together the whole blob, one for each owner, in the order of its ranks; replicas are owned by replica 0.
  std::vector<Slice> slices;
};

/// An output of the whole net and the node that computes it (of replicas: each its own rows).
struct WholeOutput {
  std::string blob;
  int stage = 0;
  float loss_weight = 0;
  int index = 0;  ///< among the outputs of its owner's NodeNet
};

/// Net, solver and table put together for one node: the graphs of both phases, the node's nets for every number of rows
/// that occurs, and the pipeline's plan. Immutable after Create.
class NodeModel {
 public:
  struct Options {
    const RoutingTable* table = nullptr;
    Rank rank = 0;
    caffe::SolverParameter solver;
    std::shared_ptr<const caffe::NetParameter> net;
    Shape train_shape, test_shape;  ///< [C, H, W] of a sample; test: rank 0 if there are no tests
    const LayerTypes* layer_types = &LayerTypes::BuiltIn();  ///< must outlive the model
    const OpFactories* op_factories = &OpFactories::BuiltIn();
    Backend* backend = nullptr;
    const Device* device = nullptr;  ///< null: the host
    uint64_t seed = 0;
  };
  /// @return kInvalidArgument: a layer that can't be placed, a batch too small for the table, a node over its memory.
  static StatusOr<std::unique_ptr<NodeModel>> Create(const Options& options);

  const Options& options() const { return options_; }
  const RoutingTable& table() const { return *options_.table; }
  const NodeInfo& node() const { return table().node(options_.rank); }
  const Schedule& schedule() const { return *schedule_; }
  const PipelinePlan& plan() const { return plan_; }
  bool tests() const { return test_.graph != nullptr; }
  const NetGraph& graph(bool train) const { return *(train ? train_ : test_).graph; }
  const NodeNet& net(bool train, int64_t rows) const { return *(train ? train_ : test_).nets.at(rows); }
  const NodeNet& any_net(bool train) const { return *(train ? train_ : test_).nets.begin()->second; }
  bool data_parallel() const { return table().stage(node().stage).conv; }
  /// The replica whose ids the node handles; -1: all.
  int replica() const { return plan_.replica; }

  std::vector<StoredParam> stored_params() const;
  /// Whether the step's gradient is made and used up piece by piece in the update, and never stands in memory.
  bool updates_in_pieces(const NetStep& step) const {
    return step.deferred && !plan_.wait_for_verdict && step.update_op->has_params_rows();
  }
  const std::vector<WholeParam>& whole_params() const { return whole_params_; }
  /// Steps of the train nets, by unit.
  const std::vector<int>& unit_steps() const { return unit_steps_; }
  const std::vector<WholeOutput>& outputs(bool train) const { return train ? train_outputs_ : test_outputs_; }
  /// Nodes that must hear the labels of a replica's part, beside the replica itself.
  const std::set<Rank>& label_readers(bool train) const { return (train ? train_ : test_).label_readers; }
  /// What each layer that reads labels takes, in the order of the layers; empty: nothing reads labels.
  const std::vector<LabelRule>& label_rules(bool train) const { return (train ? train_ : test_).label_rules; }
  /// The node that adds up the statistics and prints them.
  Rank reporter() const { return reporter_; }

  size_t arena_bytes() const { return arena_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  bool on_host() const { return options_.device == nullptr || options_.device->is_host(); }

 private:
  struct PhaseModel {
    std::unique_ptr<NetGraph> graph;
    std::unique_ptr<Placement> placement;
    std::map<int64_t, std::unique_ptr<NodeNet>> nets;  // by rows
    std::vector<Shape> shapes;                         // of the whole net's blobs, for one sample
    std::set<Rank> label_readers;
    std::vector<LabelRule> label_rules;
  };
  explicit NodeModel(const Options& options) : options_(options) {}
  Status BuildSchedule(const NetGraph& train, const NetGraph* test);
  Status BuildPhase(bool train, const StageLayout& layout, PhaseModel* phase);
  void PlanPhase(bool train, PhasePlan* plan) const;
  void PlanUnits();
  void FindWholeParams();
  void FindOutputs(bool train, std::vector<WholeOutput>* outputs);
  void FindLabelReaders(bool train, PhaseModel* phase);

  Options options_;
  std::unique_ptr<Schedule> schedule_;
  PhaseModel train_, test_;
  PipelinePlan plan_;
  std::vector<int> unit_steps_;
  std::vector<WholeParam> whole_params_;
  std::vector<WholeOutput> train_outputs_, test_outputs_;
  Rank reporter_ = 0;
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace hp
