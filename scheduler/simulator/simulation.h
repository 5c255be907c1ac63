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

/// What came of a simulation, without the clocks of the warm-up.
struct SimulationResult {
  /// A host's link.
  struct LinkUse {
    int64_t out_bytes = 0, in_bytes = 0;
    int64_t most_queued_bytes = 0;  ///< that waited to be sent at once, in the whole simulation
  };
  int64_t clocks = 0;                ///< that were counted
  int64_t ns = 0;                    ///< from when the last node ended one clock to when the last ended another
  int64_t samples = 0;               ///< of one clock
  std::vector<NodeUse> nodes = {};   ///< by rank, each between its own ends of these clocks
  std::vector<LinkUse> links = {};   ///< by host: of its nodes
  int64_t events = 0, messages = 0;  ///< of the whole simulation; messages: tensors that crossed

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
