#include "engine/label_feed.h"

#include "base/format.h"
#include "layers/labels.h"

#include <algorithm>

namespace hp {
namespace {

constexpr size_t kMostPerMessage = 100'000;

const LayerTraits* LabelReader(const NetGraph& graph) {
  const LayerTraits* reader = nullptr;
  for (const GraphLayer& layer : graph.layers()) {
    if (layer.traits.reads_labels()) reader = &layer.traits;
  }
  return reader;
}

}  // namespace

Status LabelFeed::Add(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float> labels) {
  const LayerTraits* const reader = LabelReader(model_.graph(train));
  if (reader == nullptr) return OkStatus();
  HP_RETURN_IF_ERROR(CheckLabels(labels, model_.label_classes(train), reader->ignore_label())
                         .Prepend(Format("layer \"%s\", batch %lld, rows from %lld", reader->name().c_str(),
                                         static_cast<long long>(batch), static_cast<long long>(first_row))));
  store_->Add(clock, train, batch, first_row, labels);
  for (size_t begin = 0; begin < labels.size(); begin += kMostPerMessage) {
    const auto part = labels.subspan(begin, std::min(kMostPerMessage, labels.size() - begin));
    LabelsMessage message;
    message.set_clock(clock);
    message.set_train(train);
    message.set_batch(batch);
    message.set_first_row(first_row + static_cast<int64_t>(begin));
    message.mutable_label()->Add(part.begin(), part.end());
    for (Rank rank : model_.label_readers(train)) {
      if (rank != model_.options().rank) send_(rank, message);
    }
  }
  return OkStatus();
}

}  // namespace hp
