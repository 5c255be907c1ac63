#pragma once

#include "engine/input/label_store.h"
#include "hp/status.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hp {

/// Takes the labels of a conv node's part of each batch, ahead of its images, to all nodes that have a loss or an
/// accuracy, this one included. Any thread.
class LabelFeed {
 public:
  /// @param store of this node. @param send one message to another node.
  LabelFeed(const NodeModel& model, LabelStore* store, std::function<void(Rank, const LabelsMessage&)> send)
      : model_(model),
        train_rules_(model.label_rules(true)),
        test_rules_(model.tests() ? model.label_rules(false) : std::vector<LabelRule>()),
        store_(store),
        send_(std::move(send)) {}

  /// @param labels [rows] of batch `batch` of the update or test at `clock`, from its row `first_row` on.
  /// @return kInvalidArgument: a label that one of the layers that read it has no class for and does not ignore; layer
  /// and batch are named.
  Status Add(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float> labels);

 private:
  const NodeModel& model_;
  const std::vector<LabelRule> train_rules_, test_rules_;
  LabelStore* const store_;
  const std::function<void(Rank, const LabelsMessage&)> send_;
};

}  // namespace hp
