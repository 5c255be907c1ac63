#pragma once

#include "scheduler/pipeline/pipeline.h"

#include <optional>
#include <string>
#include <vector>

namespace hp::test {

/// A tensor that crosses between nodes, as the net's placement would have it.
struct EdgeSpec {
  int from = 0, from_segment = 0;  ///< stage, and the segment that makes it
  int to = 0, to_segment = 0;
  bool sliced = false;  ///< every shard of `from` writes a slice; else shard 0 (a replica: for its own ids)
  bool lead = false;    ///< shard 0 of `to` reads alone; else all do
  bool gradient = true;
};

struct StageSpec {
  bool conv = false;
  int parts = 1;
  std::vector<ParamGroupPlan> groups;
  /// Of a conv stage: the stage of its parameter servers, of which each has a part of all groups; of that stage: the
  /// conv stage. -1: none.
  int served = -1;

  bool server() const { return !conv && served >= 0; }
};

/// A job as the pipelines of its nodes see it. Stage 0 reads the samples.
struct JobSpec {
  std::string name;
  std::vector<StageSpec> stages;
  std::vector<EdgeSpec> edges;
  JobShape shape;
  int pool_size = 1;
  int staleness = 0;
  bool wait_for_verdict = false, updates_together = false;
  /// Layers of all segments of stage 0 share parameters: its groups are added to in all of them.
  bool shares = false;
  bool urgent = false;                ///< on FC nodes all segments behind the first are (PhasePlan::urgent)
  bool enqueues = false;              ///< nodes report tasks as enqueued (Pipeline::Enqueued), and do them later
  bool late_tests = false;            ///< the images of a test come behind those of the clocks that may overtake it
  std::optional<int64_t> stop_after;  ///< the verdict of this clock orders the end

  int nodes() const;
  int stage_of(Rank rank) const;
  int part_of(Rank rank) const;
  std::vector<Rank> ranks_of(int stage) const;
  /// What node `rank` does: its ports from the edges, its segments from ports and groups.
  PipelinePlan PlanOf(Rank rank) const;
  /// The clock at whose begin the job ends, and whether a test stands there.
  int64_t last_clock() const;
};

/// conv replicas and one FC stage of `shards`, as fc6 - fc7 - loss: slices gathered twice, the loss on the lead.
JobSpec OneFcStage(int replicas, int shards, bool frozen);
/// Two FC stages; `skip`: the conv stage also writes to the second segment of the first and to the second stage.
JobSpec TwoFcStages(int replicas, int first, int second, bool frozen, bool skip);
/// Two conv stages and an FC stage behind each other, and the losses on the first, in a second segment of its nodes.
JobSpec ThereAndBack(int replicas, int behind, int shards);
/// Plain training, or data-parallel without FC nodes.
JobSpec NoFcStage(int replicas);

/// Two sub-batches and tests every other clock; the micro-batches differ in size, and one id of a test does not exist.
JobShape UnevenShape(int replicas, int micro_batches, int64_t max_iter);

/// The job with parameter servers of its first stage, on nodes behind all others.
JobSpec Served(JobSpec job, int servers);

/// The first few, for a message.
std::string Lines(const std::vector<std::string>& lines);

}  // namespace hp::test
