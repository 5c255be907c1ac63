#pragma once

#include "hp/status.h"
#include "layers/traits/label_paths.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// The labels that one loss or accuracy accepts: whole numbers in [0, classes), and the ignored one.
struct LabelRule {
  std::string layer;                   ///< its name, for messages
  int64_t classes = 0;                 ///< number of classes; 0: they are numbers, any of which will do
  std::optional<int> ignore_label;     ///< any int; none: all labels count
  std::vector<int64_t> columns = {0};  ///< which labels of a row it reads
};

/// Checks labels before they are put into a BatchContext; losses and accuracies rely on it (given a bad label, an op
/// treats it as ignored). O(labels), any thread.
/// @param of_row how many labels a row has.
/// @return kInvalidArgument: "label 12 of row 3 is not in 0..9", or of a rule with several columns "label 12 (number
/// 40) of row 3 ..."; both count from 0, rows within `labels`, numbers within the rule's.
Status CheckLabels(std::span<const float> labels, const LabelRule& rule, int64_t of_row = 1);

/// The same for all layers that read the labels of rows of a batch. @param first_row of the batch, in `labels`.
/// @return the message says the layer, the batch and its first row.
Status CheckBatchLabels(std::span<const float> labels, std::span<const LabelRule> rules, int64_t of_row, int64_t batch,
                        int64_t first_row);

/// What is told of rows ahead of them: [rows, numbers].
/// @param labels [rows, of_row].
std::vector<float> NumbersOfRows(std::span<const float> labels, int64_t of_row,
                                 const std::vector<LabelNumber>& numbers);

}  // namespace hp
