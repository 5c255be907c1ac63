#include "input/label_feed.h"

#include "input/label_counts.h"
#include "layers/labels.h"

#include <algorithm>

namespace hp {
namespace {

constexpr size_t kMostPerMessage = 100'000;

}  // namespace

Status LabelFeed::Add(int64_t clock, Phase phase, int64_t batch, int64_t first_row, std::span<const float> labels) {
  const std::vector<LabelRule>& rules = rules_[phase.index()];
  if (rules.empty()) return OkStatus();
  const int64_t of_row = model_.job().sample(phase).labels();
  HP_RETURN_IF_ERROR(CheckBatchLabels(labels, rules, of_row, batch, first_row));
  if (of_row == 1) {
    Pass(clock, phase, batch, first_row, labels);
  } else {
    Pass(clock, phase, batch, first_row, CountLabels(labels, of_row, model_.counted_ignore_label(phase)));
  }
  return OkStatus();
}

void LabelFeed::Pass(int64_t clock, Phase phase, int64_t batch, int64_t first_row, std::span<const float> of_rows) {
  store_->Add(clock, phase, batch, first_row, of_rows);
  for (size_t begin = 0; begin < of_rows.size(); begin += kMostPerMessage) {
    const auto part = of_rows.subspan(begin, std::min(kMostPerMessage, of_rows.size() - begin));
    LabelsMessage message;
    message.set_clock(clock);
    message.set_phase(phase.index());
    message.set_batch(batch);
    message.set_first_row(first_row + static_cast<int64_t>(begin));
    message.mutable_label()->Add(part.begin(), part.end());
    for (Rank rank : model_.job().label_readers(phase)) {
      if (rank != model_.rank()) send_(rank, message);
    }
  }
}

}  // namespace hp
