#pragma once

#include "backend/backend.h"
#include "backend/label.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace hp {

/// How many of the labels, read by LabelOf, differ from `ignore_label`; others out of range count, as in Caffe. O(n).
inline int64_t CountValid(std::span<const float> labels, int ignore_label) {
  return std::count_if(labels.begin(), labels.end(), [=](float label) { return LabelOf(label) != ignore_label; });
}

/// `right` rows as a share of the global batch's labels that an Accuracy counts.
inline float ShareOfCounted(int64_t right, const AccuracyDesc& desc, const BatchContext& batch) {
  const int64_t counted = desc.has_ignore_label ? CountValid(batch.batch_labels, desc.ignore_label) : batch.global_rows;
  return counted == 0 ? 0 : static_cast<float>(static_cast<double>(right) / static_cast<double>(counted));
}

}  // namespace hp
