#pragma once

#include "base/range.h"
#include "proto/phase.h"
#include "scheduler/plan/msg_id.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace hp {

/// One of the tests of a clock.
struct TestShape {
  int64_t batches = 0;  ///< its test_iter, at least 1
  int64_t batch = 0;    ///< samples of each of its global batches
};

/// The numbers of solver and table that the schedule follows from. Fields with a Caffe name have Caffe's meaning.
struct JobShape {
  int replicas = 1;         ///< of the first stage, whose nodes read the samples
  int micro_batches = 1;    ///< of one replica's share of one batch
  int64_t train_batch = 0;  ///< samples of a global batch; an update has iter_size of them
  int64_t iter_size = 1;
  std::vector<TestShape> tests = {};  ///< that a clock has, one behind the other; empty: none
  int64_t test_interval = 0;          ///< 0: no tests
  bool test_initialization = true;
  bool restart_tests = false;  ///< each test reads from sample 0 on, not from behind the samples of the last one
  int64_t max_iter = 0;        ///< clocks with training ids: 0 to max_iter - 1
  /// Of a batch, by replica, each at least 1: a replica with twice the share reads twice the samples. Empty: all alike.
  std::vector<int> shares = {};

  /// The sum of all replicas' shares.
  int64_t all_shares() const;
  /// Samples of a global batch of a phase.
  int64_t batch(Phase phase) const { return phase.train() ? train_batch : tests[phase.test()].batch; }
  /// Batches of an update, or of a test.
  int64_t batches(Phase phase) const { return phase.train() ? iter_size : tests[phase.test()].batches; }
  /// Batches of all tests of a clock together.
  int64_t test_batches() const;
  /// Samples of the largest global batch of all phases.
  int64_t largest_batch() const;
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

/// Which phase an id belongs to. The micro-batches of test ids count through all tests of a clock. Immutable.
class PhaseOfIds {
 public:
  /// Of training and one test.
  PhaseOfIds() = default;
  PhaseOfIds(const std::vector<TestShape>& tests, int micro_batches);

  /// @param id of this job, of a test only where it has any; one behind all tests counts for the last.
  Phase Of(MsgId id) const {
    if (id.train()) return caffe::TRAIN;
    return Phase::At(static_cast<int>(std::upper_bound(begins_.begin(), begins_.end(), id.micro()) - begins_.begin()));
  }
  /// The first micro-batch of a phase, in its ids.
  int64_t FirstMicro(Phase phase) const { return phase.train() ? 0 : begins_[phase.test()]; }

 private:
  std::vector<int64_t> begins_ = {0};  // by test: its first micro-batch
};

/// Which samples the micro-batch of an id holds.
struct IdSamples {
  int64_t batch = 0;      ///< index of its batch within the update (iter_size) or its test (test_iter)
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
  int tests() const { return static_cast<int>(shape_.tests.size()); }
  const PhaseOfIds& phase_of_ids() const { return phase_of_ids_; }
  /// PhaseOfIds::Of.
  Phase PhaseOf(MsgId id) const { return phase_of_ids_.Of(id); }
  /// @param id of this job, of a test only where it has any; need not be listed by the functions above.
  IdSamples SamplesOfId(MsgId id) const;
  /// The samples of one micro-batch within a global batch of `batch` samples. Replicas have contiguous parts by their
  /// shares, and each divides its own into micro_batches parts; parts of equal shares differ by at most one sample.
  /// Some are empty where the batch has few samples.
  /// @param micro within one batch: 0 to micro_batches - 1.
  Range SamplesOf(int64_t batch, int replica, int micro) const;
  /// The rows of each global batch that a replica reads.
  Range RowsOf(Phase phase, int replica) const;
  /// The different numbers of rows that micro-batches of a phase have, ascending: two at most of replicas with the same
  /// share. A node builds a net for each.
  std::vector<int64_t> RowCounts(Phase phase, const IdShare& share = {}) const;
  /// Samples of one update: all batches of iter_size together.
  int64_t update_rows() const { return shape_.train_batch * shape_.iter_size; }

 private:
  void AddIds(int64_t clock, Phase phase, const IdShare& share, std::vector<MsgId>* ids) const;

  const JobShape shape_;
  const PhaseOfIds phase_of_ids_;
  std::vector<int64_t> shares_before_;  // by replica, and all of them: sums of the shares of those before it
};

}  // namespace hp
