#pragma once

#include "base/range.h"
#include "scheduler/plan/msg_id.h"

#include <cstdint>
#include <span>
#include <vector>

namespace hp {

/// The samples of one micro-batch within a global batch of `batch` samples: part replica x micro_batches + micro of
/// replicas x micro_batches, so that a replica's samples lie together.
constexpr Range SamplesOf(int64_t batch, int replica, int replicas, int micro, int micro_batches) {
  return PartOf(batch, int64_t{replica} * micro_batches + micro, int64_t{replicas} * micro_batches);
}

/// What the solver and the table say about how much is computed when.
struct JobShape {
  int replicas = 1;
  int micro_batches = 1;
  int64_t train_batch = 0;  ///< samples of a global batch (a sub-batch with iter_size)
  int64_t test_batch = 0;
  int64_t iter_size = 1;
  int64_t test_iter = 0;  ///< 0: no tests
  int64_t test_interval = 0;
  bool test_initialization = true;
  int64_t max_iter = 0;
};

/// The samples behind an id.
struct IdSamples {
  int64_t batch = 0;      ///< of the update (iter_size) or of the test (test_iter)
  int64_t first_row = 0;  ///< within the global batch
  int64_t rows = 0;
  int64_t first_sample = 0;  ///< counted from the start of training, or of the test
};

/// The ids of a job, a function of the table and the solver alone. Immutable; any thread.
class Schedule {
 public:
  explicit Schedule(const JobShape& shape);
  const JobShape& shape() const { return shape_; }

  /// Whether clock `clock` begins with a test (Caffe: every test_interval iterations, at 0 if test_initialization says
  /// so).
  bool TestsAt(int64_t clock) const;
  /// Ids of a clock in their order; ids of empty ranges do not exist. @param replicas whose, ascending.
  std::vector<MsgId> TestIds(int64_t clock, std::span<const int> replicas) const;
  std::vector<MsgId> TrainIds(int64_t clock, std::span<const int> replicas) const;
  std::vector<MsgId> TestIds(int64_t clock, int replica) const { return TestIds(clock, std::span(&replica, 1)); }
  std::vector<MsgId> TrainIds(int64_t clock, int replica) const { return TrainIds(clock, std::span(&replica, 1)); }
  /// All of them: 0, 1, ...
  const std::vector<int>& replicas() const { return replicas_; }
  IdSamples SamplesOfId(MsgId id) const;
  /// The different numbers of rows that ids of a phase have, ascending.
  std::vector<int64_t> RowCounts(bool train) const;
  /// Samples of one update.
  int64_t update_rows() const { return shape_.train_batch * shape_.iter_size; }

 private:
  std::vector<MsgId> Ids(int64_t clock, bool train, int64_t batches, int64_t batch,
                         std::span<const int> replicas) const;

  const JobShape shape_;
  std::vector<int> replicas_;
};

}  // namespace hp
