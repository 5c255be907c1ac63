#pragma once

#include "base/mutex.h"
#include "scheduler/plan/schedule.h"

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace hp {

/// The labels of the batches under way on a node with a loss or an accuracy, as they arrive ahead of the pipelines,
/// some numbers for each row (LabelNumber): each replica sends those of its part of a batch, in any order of
/// replicas and batches. How many batches it holds is bounded by how far the replicas read ahead. Owned by the node.
/// Any thread; all calls are quick, also under the pipeline's lock, and call nobody.
class LabelStore {
 public:
  /// @param schedule must outlive it. @param numbers of a row, by phase; 1 for phases beyond.
  explicit LabelStore(const Schedule& schedule, std::vector<int64_t> numbers = {})
      : schedule_(schedule), numbers_(std::move(numbers)) {}

  /// Adds labels [rows, numbers] from row first_row on of batch `batch` of the update (0 .. iter_size - 1) or of the
  /// phase's test (0 .. test_iter - 1) at `clock`. Rows beyond the global batch are ignored.
  void Add(int64_t clock, Phase phase, int64_t batch, int64_t first_row, std::span<const float> labels)
      HP_EXCLUDES(mutex_);
  /// Whether the labels of the id's own rows have arrived.
  /// @param whole asks for those of its whole global batch.
  bool Ready(MsgId id, bool whole) const HP_EXCLUDES(mutex_);
  /// The labels [numbers, global batch] of the id's batch; empty if none arrived yet. Rows that did not arrive are 0
  /// and may be written at any time: only rows that are Ready may be read. Valid until Forget drops the id's clock.
  std::span<const float> BatchOf(MsgId id) const HP_EXCLUDES(mutex_);
  /// Drops the batches of all clocks before `clock`: no task of theirs may be under way, but in a device's queues,
  /// which labels enter by a copy. At each boundary.
  void Forget(int64_t clock) HP_EXCLUDES(mutex_);

 private:
  using Key = std::tuple<int64_t, Phase, int64_t>;  // clock, phase, batch
  struct Batch {
    std::vector<float> labels;  // [numbers, global batch], allocated once: BatchOf points into it
    std::vector<bool> there;    // by row: it has arrived
    int64_t missing = 0;        // rows that have not
  };

  Key KeyOf(MsgId id) const { return {id.clock(), schedule_.PhaseOf(id), schedule_.SamplesOfId(id).batch}; }

  const Schedule& schedule_;
  const std::vector<int64_t> numbers_;
  mutable Mutex mutex_;
  std::map<Key, Batch> batches_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
