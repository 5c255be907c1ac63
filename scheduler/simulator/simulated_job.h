#pragma once

#include "base/rank.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/plan/pipeline_plan.h"
#include "scheduler/plan/schedule.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// What a host has, as far as its nodes share it: one adapter, full duplex, on a switch that is never the bottleneck,
/// and memory through which its nodes reach each other.
struct SimulatedHost {
  std::string name = {};
  double bytes_per_s = 1e9;          ///< of payload, out and likewise in; above 0
  double memory_bytes_per_s = 1e10;  ///< between two nodes of this host; above 0
  int64_t latency_ns = 0;            ///< of a message to another host: between two, the larger one counts
  int64_t local_latency_ns = 0;      ///< of a message between two nodes of this host
};

/// The allreduces of a data-parallel stage.
struct SimulatedExchange {
  struct Collective {
    int64_t bytes = 0;        ///< of what is summed
    int64_t chunk_bytes = 1;  ///< that go round the ring one behind the other; at least 1
  };
  int stage = 0;
  std::vector<Rank> ranks = {};     ///< by replica; at least two
  std::vector<Rank> on_links = {};  ///< whose sums go round: one of each host, where hosts sum first; else empty
  std::vector<Collective> collectives = {};  ///< in the order in which they start
  /// The groups in the order in which backward passes make them final, by replica: index into the node's
  /// PipelinePlan::groups. A collective starts when all groups with a part in it are final on all replicas.
  std::vector<std::vector<int>> groups = {};
  /// By place in the order of `groups`: the collectives that have a part of the group, ascending.
  std::vector<std::vector<int>> collectives_of = {};
};

/// The parameter servers of a conv stage.
struct SimulatedServed {
  struct Piece {
    int server = 0;     ///< index into `servers`
    int group = 0;      ///< on that server: index into its PipelinePlan::groups
    int64_t bytes = 0;  ///< of what it has of the group
  };
  int stage = 0, server_stage = 0;
  std::vector<Rank> ranks = {};                 ///< by replica
  std::vector<Rank> servers = {};               ///< by server
  std::vector<std::vector<int>> groups = {};    ///< as SimulatedExchange::groups, in any order
  std::vector<std::vector<Piece>> pieces = {};  ///< by place in that order: a server each
};

/// A job as the simulation needs it: what the pipeline of each node runs, and where the nodes are.
struct SimulatedJob {
  struct Node {
    std::string name = {};
    int host = 0;  ///< index into `hosts`
    PipelinePlan plan = {};
  };
  std::vector<SimulatedHost> hosts = {};
  std::vector<Node> nodes = {};  ///< by rank
  std::vector<SimulatedExchange> exchanges = {};
  std::vector<SimulatedServed> served = {};
  /// Of which max_iter clocks are simulated. With tests, the PipelinePlan::test of each node must be filled.
  JobShape shape = {};
  /// By which links are shared; at least 1. Packets are finer, but larger frames make a simulation quicker.
  int64_t frame_bytes = 32 << 10;
};

/// How long a node computes. Implemented by whoever knows the net and the devices.
class TaskTimes {
 public:
  virtual ~TaskTimes() = default;
  /// Of a task on node `rank`, in ns; at least 0.
  virtual int64_t NsOf(Rank rank, const Task& task) const = 0;
  /// When, in ns after the begin of a backward task, the gradient of `group` is final, if it is in this task; at most
  /// NsOf. By default at its end.
  virtual int64_t GradientNs(Rank rank, const Task& task, int /*group*/) const { return NsOf(rank, task); }
  /// When, likewise, the layers of a forward or backward task end, ascending, the last one with the task: where urgent
  /// tasks may go in between. Not empty. By default one.
  virtual std::vector<int64_t> LayerEndsNs(Rank rank, const Task& task) const { return {NsOf(rank, task)}; }
};

}  // namespace hp
