#include "input/label_store.h"

#include <algorithm>
#include <iterator>

namespace hp {

void LabelStore::Add(int64_t clock, Phase phase, int64_t batch, int64_t first_row, std::span<const float> labels) {
  MutexLock lock(&mutex_);
  Batch& entry = batches_[{clock, phase, batch}];
  const int64_t rows = schedule_.shape().batch(phase);
  const int64_t numbers = phase.index() < std::ssize(numbers_) ? numbers_[phase.index()] : 1;
  if (entry.labels.empty()) {
    entry.labels.assign(numbers * rows, 0);
    entry.there.assign(rows, false);
    entry.missing = rows;
  }
  for (int64_t i = 0; i < std::ssize(labels) / numbers && first_row + i < rows; ++i) {
    for (int64_t n = 0; n < numbers; ++n) entry.labels[n * rows + first_row + i] = labels[i * numbers + n];
    if (!entry.there[first_row + i]) --entry.missing;
    entry.there[first_row + i] = true;
  }
}

bool LabelStore::Ready(MsgId id, bool whole) const {
  const IdSamples samples = schedule_.SamplesOfId(id);
  MutexLock lock(&mutex_);
  auto found = batches_.find(KeyOf(id));
  if (found == batches_.end()) return false;
  const Batch& batch = found->second;
  if (batch.missing == 0) return true;
  if (whole) return false;
  const auto begin = batch.there.begin() + samples.first_row;
  return std::all_of(begin, begin + samples.rows, [](bool there) { return there; });
}

std::span<const float> LabelStore::BatchOf(MsgId id) const {
  MutexLock lock(&mutex_);
  auto found = batches_.find(KeyOf(id));
  if (found == batches_.end()) return {};
  return found->second.labels;
}

void LabelStore::Forget(int64_t clock) {
  MutexLock lock(&mutex_);
  while (!batches_.empty() && std::get<0>(batches_.begin()->first) < clock) batches_.erase(batches_.begin());
}

}  // namespace hp
