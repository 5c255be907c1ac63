#pragma once

#include "hp/status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hp {

/// The labels that one loss or accuracy accepts: whole numbers in [0, classes), and the ignored one.
struct LabelRule {
  std::string layer;                ///< its name, for messages
  int64_t classes = 0;              ///< number of classes; 0: they are numbers, any of which will do
  std::optional<int> ignore_label;  ///< any int; none: all labels count
};

/// Checks labels before they are put into a BatchContext; losses and accuracies rely on it (given a bad label, an op
/// treats it as ignored). O(labels), any thread.
/// @param of_row how many labels a row has.
/// @return kInvalidArgument: "label 12 of row 3 is not in 0..9", or with several labels in a row "label 12 (number 40)
/// of row 3 ..."; both count from 0, rows within `labels`.
Status CheckLabels(std::span<const float> labels, const LabelRule& rule, int64_t of_row = 1);

/// The same for all layers that read the labels of rows of a batch. @param first_row of the batch, in `labels`.
/// @return the message says the layer, the batch and its first row.
Status CheckBatchLabels(std::span<const float> labels, std::span<const LabelRule> rules, int64_t of_row, int64_t batch,
                        int64_t first_row);

}  // namespace hp
