#pragma once

#include "layers/labels.h"
#include "net/node_net.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/job_plan.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// A parameter of the whole net and who owns which block of it: what snapshots are gathered by.
struct WholeParam {
  StoredParam whole;  ///< its block is the whole blob
  using Slice = ParamOwners::Slice;
  std::vector<Slice> slices;           ///< ParamOwners::slices: together the whole blob, one for each owner
  std::vector<SharedBlob> users = {};  ///< ParamOwners::users
};

/// The job's plan carried out for one node: its nets, made of ops for its device, one NodeNet for each phase, variant
/// (JobPlan::node) and number of rows that a micro-batch can have, and what others need to know of them. A parameter
/// server has one net for each phase, without layers. All nets of a phase and variant have the same steps, parameters,
/// ports and outputs, at the same indices; only numbers of rows differ. Has no state that training changes: values are
/// in the ParamStore, activations in the solvers. Made once by the node. Immutable after Create; any thread may call
/// its methods, but what NodeNet computes is the executor's.
///
/// A `phase` must be one of phases().
class NodeModel {
 public:
  struct Options {
    Rank rank = 0;  ///< of the node
    /// For all of the plan's layer types; must outlive the model, like the next two.
    const OpFactories* op_factories = &OpFactories::BuiltIn();
    Backend* backend = nullptr;      ///< makes the ops
    const Device* device = nullptr;  ///< that of the backend; null: the host's
    uint64_t seed = 0;               ///< of the job, for ops that draw random numbers; the same on all nodes
  };
  /// Makes all nets. Allocates no solver and no parameter. Main thread.
  /// @return kInvalidArgument: the backend can't make a layer's op, named.
  static StatusOr<std::unique_ptr<NodeModel>> Create(std::shared_ptr<const JobPlan> job, const Options& options);

  const JobPlan& job() const { return *job_; }
  const RoutingTable& table() const { return job_->table(); }
  const Schedule& schedule() const { return job_->schedule(); }
  Rank rank() const { return options_.rank; }
  const NodeInfo& node() const { return table().node(rank()); }
  /// The layers, ports and parameters of a phase that the node runs, all its parts together.
  const NodePlan& part(Phase phase) const { return job_->node(rank(), phase); }
  int variants() const { return job_->variants(rank()); }
  /// Segments, ports and parameter groups for the pipeline. Its pool_size is only wished for (FitMemory decides), its
  /// start_clock is 0.
  const PipelinePlan& plan() const { return plan_; }
  uint64_t seed() const { return options_.seed; }  ///< of the job
  /// JobPlan::phases.
  const std::vector<Phase>& phases() const { return job_->phases(); }
  const Device* device() const { return options_.device; }  ///< null: the host's
  bool on_host() const { return device() == nullptr || device()->is_host(); }

  /// The net that runs micro-batch `id`, which must pass the node.
  const NodeNet& NetOf(MsgId id) const {
    return *nets(schedule().PhaseOf(id)).at({plan_.VariantOf(id), schedule().SamplesOfId(id).rows});
  }
  /// All nets of a phase, by variant and rows.
  std::vector<const NodeNet*> AllNets(Phase phase) const;
  /// A net with all parts of the node, for what is alike in all nets that have it.
  const NodeNet& any_net(Phase phase) const { return *nets(phase).begin()->second; }

  /// The node's own blocks of parameters, in the order of NodePlan::params: what its ParamStore is made of. Gradients
  /// of steps that are updated in pieces are not kept. Built anew by each call.
  std::vector<StoredParam> stored_params() const;
  /// Whether the step's gradient is made and used up piece by piece in the update, so that the ParamStore keeps none.
  /// @param step of a train net.
  bool updates_in_pieces(const NetStep& step) const {
    return step.deferred && !plan_.wait_for_verdict && step.update_op->has_params_rows();
  }
  /// All parameters of the whole net, also those that other nodes own, in Caffe's order: layers, then their blobs.
  const std::vector<WholeParam>& whole_params() const { return whole_params_; }
  /// The step of a train net whose parameters a group (index into plan().groups) has; of several the first. The net
  /// must have its layers, so not of a parameter server.
  const NetStep& StepOf(const NodeNet& net, int group) const;
  /// All of them, in the order of a backward pass.
  std::vector<const NetStep*> StepsOf(const NodeNet& net, int group) const;
  /// The parameters of a group, as indices into stored_params(), and the name of its first layer. Built anew by each
  /// call.
  std::vector<int> ParamsOf(int group) const;
  const std::string& NameOf(int group) const;
  /// The group of a step that learns, of a train net.
  int GroupOf(const NetStep& step) const;
  /// What each layer of the whole net that reads labels accepts, in the order of the layers; empty: nothing reads
  /// labels. Built anew by each call.
  std::vector<LabelRule> label_rules(Phase phase) const;

  /// Bytes of one solver's arena: the most that any net needs.
  size_t arena_bytes() const { return arena_bytes_; }
  /// Bytes of its memory that peers write into and read from: likewise.
  size_t port_bytes() const { return port_bytes_; }
  /// Bytes of the scratch that all solvers share: likewise.
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  using Nets = std::map<std::pair<int, int64_t>, std::unique_ptr<NodeNet>>;  // by variant and rows
  NodeModel(std::shared_ptr<const JobPlan> job, const Options& options)
      : job_(std::move(job)), options_(options), plan_(job_->pipeline(options.rank)) {}
  const Nets& nets(Phase phase) const { return nets_[phase.index()]; }
  Status BuildNets(Phase phase);
  void CheckGroups() const;

  const std::shared_ptr<const JobPlan> job_;
  const Options options_;
  PipelinePlan plan_;       // JobPlan::pipeline, and updates_together by the device
  std::vector<Nets> nets_;  // by Phase
  std::vector<WholeParam> whole_params_;
  size_t arena_bytes_ = 0, port_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace hp
