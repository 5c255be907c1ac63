#pragma once

#include "backend/backend.h"
#include "backend/label.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

namespace hp {

/// How many of the labels, read by LabelOf, differ from `ignore_label`; others out of range count, as in Caffe. O(n).
inline int64_t CountValid(std::span<const float> labels, int ignore_label) {
  return std::count_if(labels.begin(), labels.end(), [=](float label) { return LabelOf(label) != ignore_label; });
}

inline int64_t SumOfCounts(std::span<const float> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0},
                         [](int64_t sum, float count) { return sum + static_cast<int64_t>(count); });
}

/// How many labels of a global batch count. @param of_batch BatchContext::batch_labels. @param labels of a sample:
/// above 1, `of_batch` holds their counts.
inline int64_t CountOfBatch(std::span<const float> of_batch, int ignore_label, int64_t labels) {
  return labels == 1 ? CountValid(of_batch, ignore_label) : SumOfCounts(of_batch);
}

/// `right` labels as a share of the global batch's that an Accuracy counts.
inline float ShareOfCounted(int64_t right, const AccuracyDesc& desc, const BatchContext& batch, int64_t labels = 1) {
  const int64_t counted =
      desc.has_ignore_label ? CountOfBatch(batch.batch_labels, desc.ignore_label, labels) : batch.global_rows * labels;
  return counted == 0 ? 0 : static_cast<float>(static_cast<double>(right) / static_cast<double>(counted));
}

}  // namespace hp
