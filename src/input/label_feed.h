#pragma once

#include "base/batch_labels.h"
#include "hp/status.h"
#include "input/label_store.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace hp {

/// Checks the labels of a conv node's part of each batch and passes them on ahead of the images: into this node's
/// LabelStore, and by messages to all other nodes that have a loss or an accuracy (JobPlan::label_readers). Where a row
/// has several labels, which stay with the images, what goes ahead is how many of them count (LabelNumbersOf). Owned by
/// the node. Any thread.
class LabelFeed {
 public:
  /// @param model must outlive it. @param store of this node; must outlive it.
  /// @param send sends a message to another node; must not block, reports its errors itself.
  LabelFeed(const NodeModel& model, LabelStore* store, std::function<void(Rank, const LabelsMessage&)> send)
      : model_(model), store_(store), send_(std::move(send)) {
    for (const Phase phase : model.phases()) rules_.push_back(model.label_rules(phase));
  }

  /// Takes what Input::Callbacks::on_labels reports. Does nothing if no layer of the phase reads labels. Several
  /// messages for each reader, if the labels are many.
  /// @param labels [rows, JobPlan::labels_of_row], of a batch of the update or test at `clock`.
  /// @return kInvalidArgument: a label is no class of a layer that reads it, nor its ignore_label; record, layer, batch
  /// and row are named, and nothing was stored or sent.
  Status Add(int64_t clock, Phase phase, const BatchLabels& labels);

 private:
  void Pass(int64_t clock, Phase phase, int64_t batch, int64_t first_row, const std::vector<float>& numbers);

  const NodeModel& model_;
  std::vector<std::vector<LabelRule>> rules_;  // by Phase
  LabelStore* const store_;
  const std::function<void(Rank, const LabelsMessage&)> send_;
};

}  // namespace hp
