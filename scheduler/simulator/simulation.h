#pragma once

#include "hp/status.h"
#include "scheduler/simulator/node_use.h"
#include "scheduler/simulator/simulated_job.h"
#include "scheduler/simulator/simulated_network.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

class SimulationTrace;

/// What came of a simulation. All counts are of the clocks behind the warm-up, when every node had finished it, up to
/// the moment when every node had finished the last clock.
struct SimulationResult {
  int64_t clocks = 0;                                         ///< that were counted
  int64_t ns = 0;                                             ///< that they took
  int64_t samples = 0;                                        ///< of one clock
  std::vector<NodeUse> nodes = {};                            ///< by rank
  std::vector<SimulatedNetwork::LinkUse> links = {};          ///< by host
  std::vector<int64_t> sent_bytes = {}, received_bytes = {};  ///< by rank, of tensors
  int64_t events = 0, messages = 0;  ///< simulated, warm-up included; messages: tensors that crossed

  double ms_per_iteration() const { return static_cast<double>(ns) / 1e6 / static_cast<double>(clocks); }
  double samples_per_s() const {
    return static_cast<double>(clocks) * static_cast<double>(samples) * 1e9 / static_cast<double>(ns);
  }
};

struct SimulationOptions {
  int64_t warm_up = 2;               ///< clocks that are not counted, at least 1, less than the job's max_iter
  SimulationTrace* trace = nullptr;  ///< gets all that happens; null: nobody looks
};

/// Runs a job on simulated time: the real Pipeline of each node, links that they share, and the times of their tasks.
/// A function of its arguments, the same each time; one thread. Not simulated: reading records, sending labels, tests,
/// snapshots, and what the transport's and the exchange's threads take from the executors' cores.
/// @return kInvalidArgument: numbers out of range; kInternal: the pipelines do not come to their end, with what each
/// waits for.
StatusOr<SimulationResult> Simulate(const SimulatedJob& job, const TaskTimes& times,
                                    const SimulationOptions& options = {});

}  // namespace hp
