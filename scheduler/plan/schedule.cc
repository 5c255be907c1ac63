// A batch is cut by the shares of replicas and micro-batches: a part goes from the sum of all shares before it to the
// sum with its own, in proportion. With equal shares that is PartOf. Micro-batch `micro` of an id counts through all
// batches of an update or a test, so micro / micro_batches is the batch and micro % micro_batches the part within it.
// Ids go by micro-batch first and replica second: nodes of other stages serve all replicas in turn.
#include "scheduler/plan/schedule.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace hp {

int64_t JobShape::all_shares() const {
  return shares.empty() ? replicas : std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

Schedule::Schedule(const JobShape& shape) : shape_(shape), shares_before_(shape.replicas + 1, 0) {
  for (int replica = 0; replica < shape.replicas; ++replica) {
    shares_before_[replica + 1] = shares_before_[replica] + (shape.shares.empty() ? 1 : shape.shares[replica]);
  }
  if (shape.test_iter == 0) return;
  test_ends_ = shape.tests.empty() ? std::vector<int64_t>{shape.test_iter} : shape.tests;
  std::partial_sum(test_ends_.begin(), test_ends_.end(), test_ends_.begin());
}

Range Schedule::SamplesOf(int64_t batch, int replica, int micro) const {
  const int64_t share = shares_before_[replica + 1] - shares_before_[replica];
  const int64_t begin = shares_before_[replica] * shape_.micro_batches + share * micro;
  const int64_t all = shares_before_.back() * shape_.micro_batches;
  return {batch * begin / all, batch * (begin + share) / all};
}

bool Schedule::TestsAt(int64_t clock) const {
  if (shape_.test_iter == 0 || shape_.test_interval == 0 || clock % shape_.test_interval != 0) return false;
  return clock > 0 || shape_.test_initialization;
}

int64_t Schedule::TestsBefore(int64_t clock) const {
  if (shape_.test_iter == 0 || shape_.test_interval == 0 || clock == 0) return 0;
  const int64_t from_zero = (clock - 1) / shape_.test_interval + 1;
  return from_zero - (shape_.test_initialization ? 0 : 1);
}

std::vector<MsgId> Schedule::Ids(int64_t clock, bool train, int64_t batches, int64_t batch,
                                 const IdShare& share) const {
  std::vector<MsgId> ids;
  const int64_t turns = batches * shape_.micro_batches * shape_.replicas;
  for (int64_t turn = 0; turn < turns; ++turn) {
    if (!share.Has(turn)) continue;
    const int64_t micro = turn / shape_.replicas;
    const int replica = static_cast<int>(turn % shape_.replicas);
    const int within = static_cast<int>(micro % shape_.micro_batches);
    if (SamplesOf(batch, replica, within).empty()) continue;
    ids.push_back(MsgId::Make(clock, train, micro, replica));
  }
  return ids;
}

std::vector<MsgId> Schedule::TestIds(int64_t clock, const IdShare& share) const {
  if (!TestsAt(clock)) return {};
  return Ids(clock, false, shape_.test_iter, shape_.test_batch, share);
}

std::vector<MsgId> Schedule::TrainIds(int64_t clock, const IdShare& share) const {
  if (clock >= shape_.max_iter) return {};
  return Ids(clock, true, shape_.iter_size, shape_.train_batch, share);
}

int Schedule::TestOf(MsgId id) const {
  const int64_t batch = id.micro() / shape_.micro_batches;
  const auto last = std::prev(test_ends_.end());  // an id behind all of them counts for it
  return static_cast<int>(std::upper_bound(test_ends_.begin(), last, batch) - test_ends_.begin());
}

IdSamples Schedule::SamplesOfId(MsgId id) const {
  const int64_t batch = id.train() ? shape_.train_batch : shape_.test_batch;
  const int within = static_cast<int>(id.micro() % shape_.micro_batches);
  const Range range = SamplesOf(batch, id.replica(), within);
  IdSamples samples;
  samples.batch = id.micro() / shape_.micro_batches;
  samples.first_row = range.begin;
  samples.rows = range.size();
  if (id.train()) {
    samples.first_sample = (id.clock() * shape_.iter_size + samples.batch) * batch + range.begin;
    return samples;
  }
  const int test = TestOf(id);
  const int64_t first = test == 0 ? 0 : test_ends_[test - 1];
  const int64_t before = (shape_.restart_tests ? 0 : TestsBefore(id.clock())) * (test_ends_[test] - first);
  samples.first_sample = (before + samples.batch - first) * batch + range.begin;
  return samples;
}

Range Schedule::RowsOf(bool train, int replica) const {
  const int64_t batch = train ? shape_.train_batch : shape_.test_batch;
  return {SamplesOf(batch, replica, 0).begin, SamplesOf(batch, replica, shape_.micro_batches - 1).end};
}

std::vector<int64_t> Schedule::RowCounts(bool train, const IdShare& share) const {
  const int64_t batches = train ? shape_.iter_size : shape_.test_iter;
  std::set<int64_t> counts;
  for (MsgId id : Ids(0, train, batches, train ? shape_.train_batch : shape_.test_batch, share)) {
    counts.insert(SamplesOfId(id).rows);
  }
  return {counts.begin(), counts.end()};
}

}  // namespace hp
