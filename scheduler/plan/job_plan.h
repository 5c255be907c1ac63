#pragma once

#include "net/plan/labels_ahead.h"
#include "net/plan/node_plan.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/pipeline_plan.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/schedule.h"
#include "scheduler/plan/served_params.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// A parameter of the whole net, by the blob that owns it, and which node owns which block of it. Snapshots and pulls
/// gather the parameters by this list.
struct ParamOwners {
  std::string layer;  ///< name in the prototxt
  int blob = 0;       ///< among the layer's blobs, in Caffe's order
  ParamSpec spec;     ///< shape of the whole blob, multipliers, filler
  /// The block that one node contributes.
  struct Slice {
    Rank owner = 0;
    Block block;  ///< rows of the blob, or columns; not empty
  };
  /// Disjoint, together the whole blob. A blob that shards divide has one slice for each shard that holds some of it,
  /// in the order of shards, one that servers have one for each of them with rows of it; any other has one, of replica
  /// 0 or shard 0 of its stage.
  std::vector<Slice> slices;
  /// Blobs of other layers that are the same parameter (param { name }), in the order of the layers: it is read under
  /// these names as well, and a .caffemodel has it under all of them.
  std::vector<SharedBlob> users;
};

/// An output of the whole net: a loss or accuracy that no layer consumes. Each node that computes it does so for the
/// rows of the micro-batch at hand; the reporter adds the contributions up.
struct WholeOutput {
  std::string blob;
  int stage = 0;          ///< the stage that computes it
  float loss_weight = 0;  ///< its factor in the total loss; 0: it is only printed
  int index = 0;          ///< into NodeNet::outputs() of the nodes that compute it
  bool named = true;      ///< false: a loss without a top, or one that is silenced: part of the total loss, not printed
};

/// The plan of a whole job: which ids each clock has, which layers run on which node and in which segments, which
/// tensors cross between which nodes, and who owns which parameters. It is a pure function of the net, the solver, the
/// table and the shapes of the samples, so every node and `hproute --check` compute the same plan, for all nodes of the
/// table. It needs no op, no backend and no connection.
///
/// Immutable; any thread. References that it returns live as long as the plan.
class JobPlan {
 public:
  struct Options {
    const RoutingTable* table = nullptr;             ///< must outlive the plan
    caffe::SolverParameter solver;                   ///< the nets that it names are not read
    std::shared_ptr<const caffe::NetParameter> net;  ///< the whole prototxt, with the layers of all phases
    /// Of a sample, by Phase. Those behind the solver's tests are ignored.
    std::vector<SampleShape> samples;
    const LayerTypes* types = &LayerTypes::BuiltIn();  ///< must outlive the plan
  };
  /// Plans all phases for all nodes of the table; allocates no parameters and no activations.
  /// @return kInvalidArgument: the stages do not cover the net, a layer can't be placed, shapes do not fit together or
  /// are too large, the global batch has fewer samples than replicas x micro_batches, there are more samples than can
  /// be counted, more parameter servers than parameters to divide among them, a sample of classes with staleness or
  /// larc, or a test net with parameters that the training net has not, or has elsewhere.
  static StatusOr<std::unique_ptr<JobPlan>> Create(const Options& options);

  const RoutingTable& table() const { return *options_.table; }
  const caffe::SolverParameter& solver() const { return options_.solver; }
  const Schedule& schedule() const { return *schedule_; }
  /// Training, and the tests of a clock. Nothing below may be called with another one.
  const std::vector<Phase>& phases() const { return all_; }
  /// Whether the job tests (the solver has a test_iter).
  bool tests() const { return all_.size() > 1; }
  /// The whole net of a phase.
  const NetGraph& graph(Phase phase) const { return *parts(phase).graph; }
  const Placement& placement(Phase phase) const { return *parts(phase).placement; }
  const SampleShape& sample(Phase phase) const { return parts(phase).sample; }

  /// What node `rank` runs of a phase, in each of its variants: sets of its parts that some ids pass. Variant 0 has all
  /// of its parts; of a node with one part it is the only one. Layers that are in several variants are alike in all of
  /// them, but for their segments and for the ports and steps around them.
  const NodePlan& node(Rank rank, Phase phase, int variant = 0) const {
    return parts(phase).nodes.at(rank).at(variant);
  }
  int variants(Rank rank) const { return static_cast<int>(variants_.at(rank).size()); }
  /// The ids that pass through a node, and as which variant.
  const IdShare& ShareOf(Rank rank) const { return shares_.at(rank); }
  /// Solvers with which node `rank` can have all micro-batches of `staleness` clocks under way and begin the next one:
  /// a smaller pool keeps it from the lead that the table allows. 1 of a parameter server.
  int64_t PoolForLead(Rank rank) const;
  /// The input of node `rank`'s Pipeline. Its pool_size is the table's, or else large enough to hide the round trip of
  /// a boundary, and for the whole lead; the caller lowers it where memory is short (FitMemory). The caller also sets
  /// `start_clock`, and `updates_together` for a GPU.
  PipelinePlan pipeline(Rank rank) const;

  /// All parameters of the training net, frozen ones included, in Caffe's order: that of the layers, then of their
  /// blobs. One that layers share is listed once, as its owner's.
  const std::vector<ParamOwners>& params() const { return params_; }
  /// What the servers of conv stage `stage` (an index in the table) have; empty: it has none.
  const std::vector<ServedParam>& served(int stage) const;
  /// How many histories the solver keeps of a parameter of the training net.
  int HistoriesOf(const ParamSpec& spec) const;
  /// Bytes of their values, float32, of the whole net in a .caffemodel: of shared ones under each name.
  int64_t parameter_bytes() const;
  /// In the order of their names, which is Caffe's.
  const std::vector<WholeOutput>& outputs(Phase phase) const { return parts(phase).outputs; }
  /// The nodes to which everyone who reads samples sends the labels of its rows: those of other stages that run a loss
  /// or an accuracy, and those that read samples and have a layer that counts the labels of the whole batch. May
  /// contain the sending node itself.
  const std::set<Rank>& label_readers(Phase phase) const { return parts(phase).label_readers; }
  /// What they are sent of each row (LabelNumbersOf).
  const std::vector<LabelNumber>& label_numbers(Phase phase) const { return parts(phase).label_numbers; }
  /// How many labels its reader tells of each row (LabelsOfRow).
  int64_t labels_of_row(Phase phase) const { return LabelsOfRow(graph(phase), parts(phase).sample); }
  /// The shapes of all blobs of graph(phase), by blob, for one sample: [1, ...].
  const std::vector<Shape>& shapes(Phase phase) const { return parts(phase).shapes; }
  /// The node that adds up losses and accuracies and prints them: the first one of the last stage that reads labels.
  Rank reporter() const { return reporter_; }
  /// The stages whose nodes tell the reporter of each micro-batch of a phase: those with outputs, and where training
  /// has none the first one, so that the reporter knows how far it is.
  std::set<int> ReportingStages(Phase phase) const;

 private:
  struct PhaseParts {
    SampleShape sample;
    std::unique_ptr<NetGraph> graph;
    std::unique_ptr<Placement> placement;
    std::vector<Shape> shapes;
    std::vector<std::vector<NodePlan>> nodes;  // by rank and variant
    std::vector<WholeOutput> outputs;
    std::set<Rank> label_readers;
    std::vector<LabelNumber> label_numbers;
  };
  explicit JobPlan(const Options& options);
  const PhaseParts& parts(Phase phase) const { return phases_[phase.index()]; }
  const PhaseParts& train() const { return phases_[0]; }
  Status MakeGraph(Phase phase, const StageLayout& layout);
  Status MakeSchedule();
  Status PlanPhase(Phase phase, const StageLayout& layout);
  StatusOr<NodePlan> PlanNode(Phase phase, Rank rank, const std::vector<StagePart>& parts) const;
  Status CheckBlocks(Phase test) const;
  Status CutServed();
  void FindLabelReaders(PhaseParts* phase);
  void FindOutputs(PhaseParts* phase);
  void FindReporter();
  void FindParams();
  void FindVariants();
  void AddServedGroups(Rank rank, PipelinePlan* plan) const;
  int64_t IdsOf(Rank rank) const;
  int PoolSize(Rank rank) const;
  Status CheckSamples() const;

  const Options options_;
  std::unique_ptr<Schedule> schedule_;
  const std::vector<Phase> all_;
  std::vector<PhaseParts> phases_;                             // by Phase
  std::vector<std::vector<std::vector<StagePart>>> variants_;  // by rank and variant: the parts
  std::vector<IdShare> shares_;                                // by rank
  std::map<int, std::vector<ServedParam>> served_;             // by conv stage
  std::vector<ParamOwners> params_;
  Rank reporter_ = 0;
};

}  // namespace hp
