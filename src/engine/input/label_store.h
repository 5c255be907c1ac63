#pragma once

#include "base/mutex.h"
#include "scheduler/plan/schedule.h"

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace hp {

/// The labels of the batches under way, as they arrive ahead of the pipelines: each replica sends those of its part.
/// Holds at most the batches of two clocks. Any thread.
class LabelStore {
 public:
  explicit LabelStore(const Schedule& schedule) : schedule_(schedule) {}

  /// Labels [first_row, first_row + labels.size()) of batch `batch` of the update or test at `clock`.
  void Add(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float> labels)
      HP_EXCLUDES(mutex_);
  /// Whether the labels of the id's own rows (of its whole batch, if `whole`) are there.
  bool Ready(MsgId id, bool whole) const HP_EXCLUDES(mutex_);
  /// The labels of the whole global batch of `id`; rows that did not arrive are 0. Valid until Forget.
  std::span<const float> BatchOf(MsgId id) const HP_EXCLUDES(mutex_);
  /// Batches of clocks before `clock` are no longer needed.
  void Forget(int64_t clock) HP_EXCLUDES(mutex_);

 private:
  using Key = std::tuple<int64_t, bool, int64_t>;
  struct Batch {
    std::vector<float> labels;
    std::vector<bool> there;
    int64_t missing = 0;
  };

  const Schedule& schedule_;
  mutable Mutex mutex_;
  std::map<Key, Batch> batches_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
