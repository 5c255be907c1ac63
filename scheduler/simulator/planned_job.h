#pragma once

#include "hp/status.h"
#include "scheduler/plan/job_plan.h"
#include "scheduler/planner/hosts.h"
#include "scheduler/planner/layer_time.h"
#include "scheduler/planner/node_time.h"
#include "scheduler/simulator/simulated_job.h"

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace hp {

/// The place of each node of a table, by rank: index into Hosts::places.
/// @return kInvalidArgument: a node lies on a host or device that `hosts` does not have.
StatusOr<std::vector<int>> PlacesOfNodes(const RoutingTable& table, const Hosts& hosts);

/// What goes round the rings of a planned job: of every stage with several replicas that learns.
std::vector<SimulatedExchange> ExchangesOf(const JobPlan& plan);

/// What goes between replicas and parameter servers of a planned job.
std::vector<SimulatedServed> ServedOf(const JobPlan& plan);

/// A planned job as the simulation needs it, for `clocks` iterations without tests. Links carry as much payload as TCP
/// over Ethernet leaves of their bits.
/// @param places of PlacesOfNodes.
SimulatedJob SimulatedJobOf(const JobPlan& plan, const Hosts& hosts, const std::vector<int>& places, int64_t clocks);

/// How long the tasks of a planned job take, by what its layers cost (LayerTimes). CPU nodes of one host have equal
/// parts of its speed. Not for several threads at once.
class PlannedTimes : public TaskTimes {
 public:
  /// All must outlive it. @param places of PlacesOfNodes.
  PlannedTimes(const JobPlan& plan, const Hosts& hosts, const std::vector<int>& places);

  int64_t NsOf(Rank rank, const Task& task) const override;
  int64_t GradientNs(Rank rank, const Task& task, int group) const override;
  std::vector<int64_t> LayerEndsNs(Rank rank, const Task& task) const override;

 private:
  struct Node {
    PipelinePlan pipeline;
    std::unique_ptr<LayerTimes> layers;
    std::vector<NodeTimes> variants;
  };
  double Seconds(Rank rank, const Task& task) const;
  double ServerSeconds(Rank rank, int group) const;
  int64_t RowsOf(MsgId id) const { return plan_.schedule().SamplesOfId(id).rows; }

  const JobPlan& plan_;
  const std::vector<LayerCost> costs_;
  std::vector<Node> nodes_;  // by rank
  /// By rank, kind, turn, segment and group: seconds of a task are looked up again and again.
  mutable std::map<std::tuple<Rank, int, int64_t, int, int>, int64_t> known_;
  mutable std::map<std::tuple<Rank, int64_t, int, int>, int64_t> gradients_;  // rank, turn, segment, group
  mutable std::map<std::tuple<Rank, int, int64_t, int>, std::vector<int64_t>> layer_ends_;  // rank, kind, turn, segment
};

}  // namespace hp
