// A batch is cut by the shares of replicas and micro-batches: a part goes from the sum of all shares before it to the
// sum with its own, in proportion. With equal shares that is PartOf. Micro-batch `micro` of an id counts through all
// batches of an update, or of all tests of a clock, so micro / micro_batches is the batch and micro % micro_batches the
// part within it. Ids go by micro-batch first and replica second: nodes of other stages serve all replicas in turn.
#include "scheduler/plan/schedule.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace hp {

int64_t JobShape::all_shares() const {
  return shares.empty() ? replicas : std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

int64_t JobShape::test_batches() const {
  int64_t batches = 0;
  for (const TestShape& test : tests) batches += test.batches;
  return batches;
}

int64_t JobShape::largest_batch() const {
  int64_t largest = train_batch;
  for (const TestShape& test : tests) largest = std::max(largest, test.batch);
  return largest;
}

PhaseOfIds::PhaseOfIds(const std::vector<TestShape>& tests, int micro_batches) {
  for (size_t test = 0; test + 1 < tests.size(); ++test) {
    begins_.push_back(begins_.back() + tests[test].batches * micro_batches);
  }
}

Schedule::Schedule(const JobShape& shape)
    : shape_(shape), phase_of_ids_(shape.tests, shape.micro_batches), shares_before_(shape.replicas + 1, 0) {
  for (int replica = 0; replica < shape.replicas; ++replica) {
    shares_before_[replica + 1] = shares_before_[replica] + (shape.shares.empty() ? 1 : shape.shares[replica]);
  }
}

Range Schedule::SamplesOf(int64_t batch, int replica, int micro) const {
  const int64_t share = shares_before_[replica + 1] - shares_before_[replica];
  const int64_t begin = shares_before_[replica] * shape_.micro_batches + share * micro;
  const int64_t all = shares_before_.back() * shape_.micro_batches;
  return {batch * begin / all, batch * (begin + share) / all};
}

bool Schedule::TestsAt(int64_t clock) const {
  if (shape_.tests.empty() || shape_.test_interval == 0 || clock % shape_.test_interval != 0) return false;
  return clock > 0 || shape_.test_initialization;
}

int64_t Schedule::TestsBefore(int64_t clock) const {
  if (shape_.tests.empty() || shape_.test_interval == 0 || clock == 0) return 0;
  const int64_t from_zero = (clock - 1) / shape_.test_interval + 1;
  return from_zero - (shape_.test_initialization ? 0 : 1);
}

void Schedule::AddIds(int64_t clock, Phase phase, const IdShare& share, std::vector<MsgId>* ids) const {
  const int64_t first = phase_of_ids_.FirstMicro(phase) * shape_.replicas;
  const int64_t turns = shape_.batches(phase) * shape_.micro_batches * shape_.replicas;
  for (int64_t turn = first; turn < first + turns; ++turn) {
    if (!share.Has(turn)) continue;
    const int64_t micro = turn / shape_.replicas;
    const int replica = static_cast<int>(turn % shape_.replicas);
    const int within = static_cast<int>(micro % shape_.micro_batches);
    if (SamplesOf(shape_.batch(phase), replica, within).empty()) continue;
    ids->push_back(MsgId::Make(clock, phase.train(), micro, replica));
  }
}

std::vector<MsgId> Schedule::TestIds(int64_t clock, const IdShare& share) const {
  std::vector<MsgId> ids;
  for (int test = 0; test < tests() && TestsAt(clock); ++test) AddIds(clock, Phase::OfTest(test), share, &ids);
  return ids;
}

std::vector<MsgId> Schedule::TrainIds(int64_t clock, const IdShare& share) const {
  std::vector<MsgId> ids;
  if (clock < shape_.max_iter) AddIds(clock, caffe::TRAIN, share, &ids);
  return ids;
}

IdSamples Schedule::SamplesOfId(MsgId id) const {
  const Phase phase = PhaseOf(id);
  const int64_t batch = shape_.batch(phase);
  const int within = static_cast<int>(id.micro() % shape_.micro_batches);
  const Range range = SamplesOf(batch, id.replica(), within);
  IdSamples samples;
  samples.batch = (id.micro() - phase_of_ids_.FirstMicro(phase)) / shape_.micro_batches;
  samples.first_row = range.begin;
  samples.rows = range.size();
  const int64_t tests_before = shape_.restart_tests ? 0 : TestsBefore(id.clock());
  const int64_t before = (phase.train() ? id.clock() : tests_before) * shape_.batches(phase);
  samples.first_sample = (before + samples.batch) * batch + range.begin;
  return samples;
}

Range Schedule::RowsOf(Phase phase, int replica) const {
  const int64_t batch = shape_.batch(phase);
  return {SamplesOf(batch, replica, 0).begin, SamplesOf(batch, replica, shape_.micro_batches - 1).end};
}

std::vector<int64_t> Schedule::RowCounts(Phase phase, const IdShare& share) const {
  std::vector<MsgId> ids;
  AddIds(0, phase, share, &ids);
  std::set<int64_t> counts;
  for (MsgId id : ids) counts.insert(SamplesOfId(id).rows);
  return {counts.begin(), counts.end()};
}

}  // namespace hp
