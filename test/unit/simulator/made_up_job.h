#pragma once

#include "scheduler/simulator/simulation.h"
#include "test/unit/scheduler/pipeline_job.h"

#include <cstdint>

namespace hp::test {

/// Every forward and backward pass takes as long as this, whatever its rows; weight gradients and updates likewise.
struct EvenTimes : public TaskTimes {
  int64_t forward_ns = 0, backward_ns = 0, weights_ns = 0, update_ns = 0;
  int64_t NsOf(Rank rank, const Task& task) const override;
};

/// Training alone: as many clocks, micro-batches and rows in each of them as that, of every replica.
JobShape TrainingShape(int replicas, int micro_batches, int64_t clocks, int64_t rows = 1);

/// A job of pipeline_job.h with a host for each node, no latency, and tensors of `row_bytes` a row.
SimulatedJob SimulatedJobOf(const JobSpec& spec, double bytes_per_s, int64_t row_bytes);

/// Plain data parallelism on as many replicas, with one group of parameters of `bytes`.
SimulatedJob DataParallel(int replicas, int64_t bytes, double bytes_per_s, int64_t clocks);

}  // namespace hp::test
