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
#include <vector>

namespace hp {

/// A blob of the whole net and who holds which block of it: what snapshots are gathered by.
struct WholeParam {
  StoredParam whole;  ///< all of it
  using Slice = ParamOwners::Slice;
  std::vector<Slice> slices;  ///< ParamOwners::slices
};

/// The job's plan carried out for one node: its nets, made of ops for its device, for every number of rows that occurs,
/// and the parameters that they hold. Has no state that training changes. Immutable after Create; any thread.
class NodeModel {
 public:
  struct Options {
    Rank rank = 0;
    const OpFactories* op_factories = &OpFactories::BuiltIn();  ///< for all of the plan's layer types
    Backend* backend = nullptr;                                 ///< must outlive the model
    const Device* device = nullptr;                             ///< null: the host
    uint64_t seed = 0;
  };
  /// @return kInvalidArgument: the backend can't make a layer's op, named.
  static StatusOr<std::unique_ptr<NodeModel>> Create(std::shared_ptr<const JobPlan> job, const Options& options);

  const JobPlan& job() const { return *job_; }
  const RoutingTable& table() const { return job_->table(); }
  const Schedule& schedule() const { return job_->schedule(); }
  Rank rank() const { return options_.rank; }
  const NodeInfo& node() const { return table().node(rank()); }
  /// What the node runs of a phase.
  const NodePlan& part(bool train) const { return job_->node(rank(), train); }
  /// What its pipeline goes by.
  const PipelinePlan& plan() const { return plan_; }
  bool tests() const { return job_->tests(); }
  const Device* device() const { return options_.device; }
  bool on_host() const { return device() == nullptr || device()->is_host(); }

  /// @param rows of a micro-batch, one of the schedule's RowCounts.
  const NodeNet& net(bool train, int64_t rows) const { return *nets(train).at(rows); }
  const NodeNet& any_net(bool train) const { return *nets(train).begin()->second; }

  std::vector<StoredParam> stored_params() const;
  /// Whether the step's gradient is made and used up piece by piece in the update, and never stands in memory.
  bool updates_in_pieces(const NetStep& step) const {
    return step.deferred && !plan_.wait_for_verdict && step.update_op->has_params_rows();
  }
  const std::vector<WholeParam>& whole_params() const { return whole_params_; }
  /// Steps of the train nets, by unit. The same layer's step has the same index in the nets of all numbers of rows.
  const std::vector<int>& unit_steps() const { return unit_steps_; }
  /// What each layer that reads labels takes, in the order of the layers; empty: nothing reads labels.
  std::vector<LabelRule> label_rules(bool train) const;

  /// Of a solver, and of what all solvers share: the largest that any net needs.
  size_t arena_bytes() const { return arena_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  using Nets = std::map<int64_t, std::unique_ptr<NodeNet>>;  // by rows
  NodeModel(std::shared_ptr<const JobPlan> job, const Options& options)
      : job_(std::move(job)), options_(options), plan_(job_->pipeline(options.rank)) {}
  const Nets& nets(bool train) const { return train ? train_nets_ : test_nets_; }
  Status BuildNets(bool train, Nets* nets);
  void FindUnitSteps();

  const std::shared_ptr<const JobPlan> job_;
  const Options options_;
  PipelinePlan plan_;
  Nets train_nets_, test_nets_;
  std::vector<int> unit_steps_;
  std::vector<WholeParam> whole_params_;
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace hp
