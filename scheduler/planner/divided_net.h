#pragma once

#include "hp/status.h"
#include "net/plan/node_plan.h"
#include "scheduler/planner/node_time.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// How a net is cut and split, whatever the number of its replicas: one conv stage, and behind it one FC stage or none.
struct NetDivision {
  int cut = -1;  ///< index of the FC stage's first layer among the layers of the unfiltered prototxt; -1: no FC stage
  bool sides = false;  ///< the FC stage has the side classifiers in front of the cut as well (SideClassifiers)
  int shards = 0;      ///< of the FC stage, at least 1 with one
  std::vector<std::pair<int, LayerSplit>> splits;  ///< layers, by the same index, that are not split by outputs
  bool scattered = false;                          ///< StageConfig::SCATTERED
  bool replicated = false;                   ///< there are several replicas, whose gradients are exchanged as they come
  ElementType wire = ElementType::kFloat32;  ///< StageLayout::wire

  bool operator==(const NetDivision&) const = default;
};

/// Bytes that cross for one sample, each way told apart. Replicas are alike. Shard 0 stands for all: their slices
/// differ by a channel at most, and it is the lead.
struct NetTraffic {
  double replica_out = 0, replica_in = 0;  ///< of a replica, for a sample of its own, with all shards together
  double shard_in = 0, shard_out = 0;      ///< of shard 0 with the replicas, for any sample of the batch
  double inner_in = 0, inner_out = 0;      ///< of shard 0 with the other shards, likewise
  double exchanged = 0;   ///< bytes of the gradients that replicas sum up, in an update; 0 with one replica
  double wire_share = 1;  ///< of them, which cross the network among replicas; to and from servers all do
};

/// What the nodes of a division run, hold and send, planned by the same code as a job (NetGraph, Placement, NodePlan)
/// but for two nodes alone: a replica, and shard 0. So a thousand replicas cost no more than one. Immutable; any
/// thread.
class DividedNet {
 public:
  /// @param update_rows samples of an update, by which weight gradients are deferred.
  /// @return the errors of FindCuts, NetGraph::Create, Placement::Create, NodePlan::Create.
  static StatusOr<std::unique_ptr<DividedNet>> Create(const std::shared_ptr<const caffe::NetParameter>& net,
                                                      const SampleShape& sample, const NetDivision& division,
                                                      int64_t update_rows);

  const NetDivision& division() const { return division_; }
  const NetTraffic& traffic() const { return traffic_; }
  const std::vector<LayerCost>& costs() const { return costs_; }
  const NodePlan& replica() const { return *replica_; }
  /// Null without an FC stage.
  const NodePlan* shard() const { return shard_ ? &*shard_ : nullptr; }
  /// The exchanges between shards that a micro-batch waits for, one behind the other, on its way forward and back.
  int hops() const { return hops_; }

  /// What a node of `plan`, replica() or *shard(), takes of memory, roughly: hproute --check makes the ops and counts
  /// exactly. Parameters with gradients and histories, rows of deferred gradients, and `pool` solvers of `rows` rows.
  /// @param histories of a parameter.
  double MemoryOf(const NodePlan& plan, double rows, int pool, int histories) const;

 private:
  DividedNet(const NetDivision& division, int64_t update_rows) : division_(division), update_rows_(update_rows) {}
  void CountTraffic();

  const NetDivision division_;
  const int64_t update_rows_;
  std::unique_ptr<NetGraph> graph_;
  std::unique_ptr<Placement> placement_;
  std::vector<Shape> shapes_;
  std::vector<LayerCost> costs_;
  std::unique_ptr<NodePlan> replica_, shard_;
  NetTraffic traffic_;
  int hops_ = 0;
};

}  // namespace hp
