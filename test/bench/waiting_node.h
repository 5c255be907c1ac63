#pragma once

#include "scheduler/simulator/simulated_job.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp::test {

/// A job whose tasks take as long as TaskTimes says and compute nothing: pipelines, transport and rings are real.
struct WaitingJob {
  SimulatedJob job;  ///< without parameter servers
  const TaskTimes* times = nullptr;
  std::vector<std::string> addresses;  ///< by rank
  int port = 29700;                    ///< of the first node; the others use the next ones
  int64_t warm_up = 2;                 ///< clocks that do not count
  bool print_tasks = false;            ///< when each began
  /// By exchange of the job: the bytes of the gradients of each group, in its order.
  std::vector<std::vector<size_t>> gradients = {};
};

/// Runs a node over TCP, to the end of the job.
/// @return samples in a second.
double RunWaitingNode(const WaitingJob& job, Rank rank);

}  // namespace hp::test
