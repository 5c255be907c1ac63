#pragma once

#include "base/batch_labels.h"
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
  std::string layer;                     ///< its name, for messages
  int64_t classes = 0;                   ///< number of classes; 0: they are numbers, any of which will do
  std::optional<int> ignore_label = {};  ///< any int; none: all labels count
  std::vector<int64_t> columns = {0};    ///< which labels of a row it reads
  /// A number outside the classes counts as wrong, and one that is no whole number is cut to one, as in Caffe: nothing
  /// learns by an accuracy, and one that was left in a net of targets ends no training.
  bool wrong_counts = false;
};

/// Checks the labels of rows of a batch for all layers that read them, before they are put into a BatchContext; losses
/// and accuracies rely on it (given a bad label, a loss treats it as ignored). Warns of the first one of the process
/// that counts as wrong. O(labels), any thread.
/// @param of_row how many labels a row has.
/// @return kInvalidArgument: "cat.txt:7: cat.png: layer "loss", batch 2, rows from 6: label 12 of row 3 is not in
/// 0..9", or of a rule with several columns "label 12 (number 40) of row 3 ..."; both count from 0, rows within
/// `labels`, numbers within the rule's. Where wrong_counts only of what is no int.
Status CheckBatchLabels(const BatchLabels& labels, std::span<const LabelRule> rules, int64_t of_row);

/// What is told of rows ahead of them: [rows, numbers].
/// @param labels [rows, of_row].
std::vector<float> NumbersOfRows(std::span<const float> labels, int64_t of_row,
                                 const std::vector<LabelNumber>& numbers);

}  // namespace hp
