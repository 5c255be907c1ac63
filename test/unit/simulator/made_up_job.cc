#include "test/unit/simulator/made_up_job.h"

#include <string>
#include <utility>

namespace hp::test {

int64_t EvenTimes::NsOf(Rank, const Task& task) const {
  switch (task.kind) {
    case Task::kForward:
      return forward_ns;
    case Task::kBackward:
      return backward_ns;
    case Task::kWeightGradient:
      return weights_ns;
    case Task::kUpdate:
      return update_ns;
    default:
      return 0;
  }
}

JobShape TrainingShape(int replicas, int micro_batches, int64_t clocks, int64_t rows) {
  JobShape shape;
  shape.replicas = replicas;
  shape.micro_batches = micro_batches;
  shape.train_batch = rows * replicas * micro_batches;
  shape.max_iter = clocks;
  return shape;
}

SimulatedJob SimulatedJobOf(const JobSpec& spec, double bytes_per_s, int64_t row_bytes) {
  SimulatedJob job;
  job.shape = spec.shape;
  for (Rank rank = 0; rank < spec.nodes(); ++rank) {
    PipelinePlan plan = spec.PlanOf(rank);
    for (PhasePlan& phase : plan.phases[0]) {
      for (PortPlan& port : phase.ports) port.row_bytes = row_bytes;
    }
    job.hosts.push_back({.name = "host" + std::to_string(rank), .bytes_per_s = bytes_per_s});
    job.nodes.push_back({"node" + std::to_string(rank), rank, std::move(plan)});
  }
  return job;
}

SimulatedJob DataParallel(int replicas, int64_t bytes, double bytes_per_s, int64_t clocks) {
  JobSpec spec;
  spec.stages = {{true, replicas, {{.in_backward = true}}}};
  spec.shape = TrainingShape(replicas, 1, clocks);
  SimulatedJob job = SimulatedJobOf(spec, bytes_per_s, 0);
  SimulatedExchange exchange;
  for (Rank rank = 0; rank < replicas; ++rank) exchange.ranks.push_back(rank);
  exchange.collectives = {{bytes, bytes}};
  exchange.groups.assign(replicas, {0});
  exchange.collectives_of = {{0}};
  if (replicas > 1) job.exchanges.push_back(exchange);
  return job;
}

}  // namespace hp::test
