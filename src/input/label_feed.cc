#include "input/label_feed.h"

#include "layers/labels.h"

#include <algorithm>
#include <span>

namespace hp {
namespace {

constexpr size_t kMostPerMessage = 100'000;

}  // namespace

Status LabelFeed::Add(int64_t clock, Phase phase, const BatchLabels& labels) {
  const std::vector<LabelRule>& rules = rules_[phase.index()];
  if (rules.empty()) return OkStatus();
  const JobPlan& job = model_.job();
  const int64_t of_row = job.labels_of_row(phase);
  HP_RETURN_IF_ERROR(CheckBatchLabels(labels, rules, of_row));
  Pass(clock, phase, labels.batch, labels.first_row, NumbersOfRows(labels.values, of_row, job.label_numbers(phase)));
  return OkStatus();
}

void LabelFeed::Pass(int64_t clock, Phase phase, int64_t batch, int64_t first_row, const std::vector<float>& numbers) {
  store_->Add(clock, phase, batch, first_row, numbers);
  const size_t of_row = model_.job().label_numbers(phase).size(), most = kMostPerMessage / of_row * of_row;
  for (size_t begin = 0; begin < numbers.size(); begin += most) {
    const auto part = std::span(numbers).subspan(begin, std::min(most, numbers.size() - begin));
    LabelsMessage message;
    message.set_clock(clock);
    message.set_phase(phase.index());
    message.set_batch(batch);
    message.set_first_row(first_row + static_cast<int64_t>(begin / of_row));
    message.mutable_label()->Add(part.begin(), part.end());
    for (Rank rank : model_.job().label_readers(phase)) {
      if (rank != model_.rank()) send_(rank, message);
    }
  }
}

}  // namespace hp
