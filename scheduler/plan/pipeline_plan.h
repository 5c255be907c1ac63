#pragma once

#include "net/plan/port_plan.h"
#include "scheduler/plan/schedule.h"

#include <cstdint>
#include <vector>

namespace hp {

/// The part of one phase that one node runs of the ids of a variant, reduced to what its pipeline needs.
struct PhasePlan {
  int segments = 1;             ///< at least 1; forward passes go from segment 0 up
  std::vector<bool> backward;   ///< by segment: whether it has a backward task; all false in a test
  std::vector<PortPlan> ports;  ///< a "port" elsewhere is an index into these, and into NodePlan::ports()
  /// By segment: whether its tasks go in between the layers of others, since replicas on other nodes wait for this
  /// shard of a layer. Empty: none, as on GPUs, and on all nodes that are not replica and shard at once.
  std::vector<bool> urgent = {};
  /// In training, by parameter group: the segments whose backward passes add to its gradient, from the first one,
  /// behind which it is final, to the last; -1: the group's layers do not run.
  struct GroupSegments {
    int first = -1, last = -1;
    bool Has(int segment) const { return first >= 0 && segment >= first && segment <= last; }
  };
  std::vector<GroupSegments> groups = {};
};

/// What becomes of a group's gradient between the nodes that have parts of it.
enum class GroupExchange {
  kNone,   ///< this node has all of it
  kSum,    ///< the replicas of its stage sum it, and each updates
  kPush,   ///< it goes to parameter servers; their new values come in by a kPull task
  kServe,  ///< on a parameter server: it comes from the replicas, and new values go back
};

/// A parameter group: the parameters of one layer, or of several that share some of them, which are updated together.
/// Its gradient comes about in one of three ways: `in_backward`, `deferred`, or else by a weight-gradient task for each
/// micro-batch (at_once).
struct ParamGroupPlan {
  int stage = 0;             ///< index in the table of the layer's stage, or on a parameter server of the server's
  int segment = 0;           ///< of `layer` in variant 0, which gives the order of updates
  bool deferred = false;     ///< one product over all rows of the update, after its last backward pass
  bool in_backward = false;  ///< computed by the backward task of each micro-batch (data-parallel stages)
  /// kSum, kPush: requires in_backward. kServe: requires deferred, since the update makes the gradient: the sum of
  /// those of the replicas.
  GroupExchange exchange = GroupExchange::kNone;
  /// Whether this node includes the group in the sum of squares that it reports. Replicas have equal gradients, so only
  /// replica 0 does, or the servers of the stage.
  bool counts = true;
  int layer = 0;  ///< index into the training graph's layers: the first of `layers`, whose backward pass comes last
  /// All layers that learn here by the group's parameters, in the order of a forward pass; of a server the first alone.
  std::vector<int> layers = {};
  /// Whether each micro-batch has a weight-gradient task for this group.
  bool at_once() const { return !deferred && !in_backward; }
};

/// What one node's pipeline has to run: JobPlan::pipeline makes it. Plain values; the pipeline keeps a copy.
struct PipelinePlan {
  std::vector<std::vector<PhasePlan>> phases;  ///< by Phase, then by variant; training alone in a job without tests
  PhaseOfIds phase_of_ids;
  std::vector<ParamGroupPlan> groups;  ///< those that learn here; a "group" elsewhere is an index into these
  int replicas = 1;                    ///< of the first stage, which read the samples
  IdShare share;                       ///< the ids that pass through the node (a server: none), and as which variant
  int pool_size = 1;                   ///< solvers, at least 1: micro-batches that are under way at once
  bool ordered_backward = false;       ///< backward tasks go in the order of ids, because they add up weight gradients
  bool wait_for_verdict =
      false;          ///< updates wait for the verdict of their own clock (clip_gradients, larc, loss scaling)
  int staleness = 0;  ///< clocks that may be under way beside the first one; iteration t may compute with
                      ///< the parameters of t - staleness updates
  /// One update task takes all groups that are ready. For GPUs, where handing out a task costs the host more than the
  /// update of a small group takes. Groups are independent of each other, so it changes no bit.
  bool updates_together = false;
  int64_t start_clock = 0;  ///< the first iteration to run: 0, or the iteration of the snapshot

  int VariantOf(MsgId id) const { return share.VariantOf(TurnOf(id, replicas)); }
  const PhasePlan& phase(MsgId id) const { return phases[phase_of_ids.Of(id).index()][VariantOf(id)]; }
  /// The node that a micro-batch's tensor comes from or goes to by one of the phase's ports.
  Rank PeerOf(const PortPlan& port, MsgId id) const { return port.peer(TurnOf(id, replicas)); }
};

}  // namespace hp
