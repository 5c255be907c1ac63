// A batch is cut into replicas x micro_batches parts by PartOf. Micro-batch `micro` of an id counts through all batches
// of an update or a test, so micro / micro_batches is the batch and micro % micro_batches the part within it. Ids go by
// micro-batch first and replica second: nodes of other stages serve all replicas in turn.
#include "scheduler/plan/schedule.h"

namespace hp {

bool Schedule::TestsAt(int64_t clock) const {
  if (shape_.test_iter == 0 || shape_.test_interval == 0 || clock % shape_.test_interval != 0) return false;
  return clock > 0 || shape_.test_initialization;
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
    if (SamplesOf(batch, replica, shape_.replicas, within, shape_.micro_batches).empty()) continue;
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

IdSamples Schedule::SamplesOfId(MsgId id) const {
  const int64_t batch = id.train() ? shape_.train_batch : shape_.test_batch;
  const int within = static_cast<int>(id.micro() % shape_.micro_batches);
  const Range range = SamplesOf(batch, id.replica(), shape_.replicas, within, shape_.micro_batches);
  IdSamples samples;
  samples.batch = id.micro() / shape_.micro_batches;
  samples.first_row = range.begin;
  samples.rows = range.size();
  const int64_t before = id.train() ? id.clock() * shape_.iter_size + samples.batch : samples.batch;
  samples.first_sample = before * batch + range.begin;
  return samples;
}

std::vector<int64_t> Schedule::RowCounts(bool train) const {
  const int64_t batch = train ? shape_.train_batch : shape_.test_batch;
  const int64_t parts = int64_t{shape_.replicas} * shape_.micro_batches;
  std::vector<int64_t> counts;
  if (batch >= parts) counts.push_back(batch / parts);
  if (batch % parts != 0) counts.push_back(batch / parts + 1);
  return counts;
}

}  // namespace hp
