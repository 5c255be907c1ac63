#pragma once

#include "base/range.h"
#include "scheduler/plan/msg_id.h"

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace hp {

/// The numbers of solver and table that the schedule follows from. Fields with a Caffe name have Caffe's meaning.
struct JobShape {
  int replicas = 1;         ///< of the first stage, whose nodes read the samples
  int micro_batches = 1;    ///< of one replica's share of one batch
  int64_t train_batch = 0;  ///< samples of a global batch; an update has iter_size of them
  int64_t test_batch = 0;   ///< samples of a global test batch; the tests of a clock have test_iter of them
  int64_t iter_size = 1;
  int64_t test_iter = 0;            ///< of all tests of a clock together; 0: no tests
  std::vector<int64_t> tests = {};  ///< test_iter of each, where a clock has several one behind the other; empty: one
  int64_t test_interval = 0;        ///< 0: no tests
  bool test_initialization = true;
  bool restart_tests = false;  ///< each test reads from sample 0 on, not from behind the samples of the last one
  int64_t max_iter = 0;        ///< clocks with training ids: 0 to max_iter - 1
  /// Of a batch, by replica, each at least 1: a replica with twice the share reads twice the samples. Empty: all alike.
  std::vector<int> shares = {};

  /// The sum of all replicas' shares.
  int64_t all_shares() const;
};

/// Which ids of a phase pass through a node or a part of it, by their turn (TurnOf), and what the node runs of them: a
/// node with several parts may be passed in several ways, its variants (JobPlan::node). Immutable.
class IdShare {
 public:
  /// All ids, as through a shard.
  IdShare() = default;
  /// Those whose turn, divided by `of`, leaves `index`, as through replica `index` of `of`.
  IdShare(int of, int index) : variants_(of, -1) { variants_[index] = 0; }
  /// @param variants by turn, divided by their number; -1: the id does not pass. Not empty.
  explicit IdShare(std::vector<int> variants) : variants_(std::move(variants)) {}

  /// -1: the id does not pass.
  int VariantOf(int64_t turn) const { return variants_[turn % std::ssize(variants_)]; }
  bool Has(int64_t turn) const { return VariantOf(turn) >= 0; }
  bool operator==(const IdShare&) const = default;

 private:
  std::vector<int> variants_ = {0};
};

/// Which samples the micro-batch of an id holds.
struct IdSamples {
  int64_t batch = 0;      ///< index of its batch within the update (iter_size) or the tests (test_iter)
  int64_t first_row = 0;  ///< within that global batch
  int64_t rows = 0;       ///< at least 1 for ids that a Schedule lists
  int64_t first_sample =
      0;  ///< index of the first row's sample since the start of training, or in all runs of its test
};

/// Which ids each clock has and which samples belong to an id: a function of table and solver alone, so all nodes agree
/// without a message. Immutable; any thread.
class Schedule {
 public:
  /// @param shape whose batches, times all_shares() times micro_batches, are below 2^62.
  explicit Schedule(const JobShape& shape);
  const JobShape& shape() const { return shape_; }

  /// Whether clock `clock` begins with a test: every test_interval iterations, at 0 only with test_initialization.
  /// Holds for clock max_iter too, which has a test but no training.
  /// Source: Caffe, src/caffe/solver.cpp, Solver::Step and Solver::Solve.
  bool TestsAt(int64_t clock) const;
  /// How many tests there are at clocks before `clock`.
  int64_t TestsBefore(int64_t clock) const;
  /// The test ids of a clock, in the order of ids; empty unless TestsAt. A micro-batch without samples has no id.
  std::vector<MsgId> TestIds(int64_t clock, const IdShare& share = {}) const;
  /// The training ids of a clock, in the order of ids; empty from max_iter on.
  std::vector<MsgId> TrainIds(int64_t clock, const IdShare& share = {}) const;
  /// The ids whose samples a replica reads.
  IdShare ReadBy(int replica) const { return {shape_.replicas, replica}; }
  /// How many tests a clock with tests has; their order is that of their ids.
  int tests() const { return static_cast<int>(test_ends_.size()); }
  /// Which of the tests an id belongs to: an index below tests(). @param id of a test.
  int TestOf(MsgId id) const;
  /// @param id of this job, of a test only where it has any; need not be listed by the functions above.
  IdSamples SamplesOfId(MsgId id) const;
  /// The samples of one micro-batch within a global batch of `batch` samples. Replicas have contiguous parts by their
  /// shares, and each divides its own into micro_batches parts; parts of equal shares differ by at most one sample.
  /// Some are empty where the batch has few samples.
  /// @param micro within one batch: 0 to micro_batches - 1.
  Range SamplesOf(int64_t batch, int replica, int micro) const;
  /// The rows of each global batch that a replica reads.
  Range RowsOf(bool train, int replica) const;
  /// The different numbers of rows that micro-batches of a phase have, ascending: two at most of replicas with the same
  /// share. A node builds a net for each.
  std::vector<int64_t> RowCounts(bool train, const IdShare& share = {}) const;
  /// Samples of one update: all batches of iter_size together.
  int64_t update_rows() const { return shape_.train_batch * shape_.iter_size; }

 private:
  std::vector<MsgId> Ids(int64_t clock, bool train, int64_t batches, int64_t batch, const IdShare& share) const;

  const JobShape shape_;
  std::vector<int64_t> test_ends_;      // by test: the batch behind its last one
  std::vector<int64_t> shares_before_;  // by replica, and all of them: sums of the shares of those before it
};

}  // namespace hp
