#pragma once

#include "backend/backend.h"
#include "backend/class_axis.h"
#include "backend/cpu/label_count.h"
#include "backend/label.h"
#include "backend/margin_rule.h"

#include <algorithm>
#include <cstdint>

namespace hp {

/// Which labels of a micro-batch a SoftmaxLossDesc counts, and what it divides by. Source: Caffe's
/// SoftmaxWithLossLayer.
class LossRows {
 public:
  /// @param classes of all shards. Their axis is 1, and there is a label for each row.
  LossRows(const SoftmaxLossDesc& desc, int64_t classes) : desc_(desc), classes_(classes) {}
  /// @param at the classes of the scores, where they are no sample.
  LossRows(const SoftmaxLossDesc& desc, int64_t classes, const ClassAxis& at)
      : desc_(desc), classes_(classes), outer_(at.outer), labels_(at.labels) {}

  /// Label `at` of BatchContext::labels, or -1 if it is not counted.
  int64_t CountedLabel(const BatchContext& batch, int64_t at) const {
    return IsCounted(batch, at) ? LabelOf(batch.labels[at]) : -1;
  }

  /// Ignored labels yield nothing, and so do those out of range, which CheckBatchLabels refuses before they get here.
  bool IsCounted(const BatchContext& batch, int64_t at) const {
    const int64_t label = LabelOf(batch.labels[at]);
    if (desc_.has_ignore_label && label == desc_.ignore_label) return false;
    return label >= 0 && label < classes_;
  }

  double Normalizer(const BatchContext& batch) const {
    int64_t count = batch.global_rows * labels_;
    if (desc_.normalization == SoftmaxLossDesc::kNone) count = 1;
    if (desc_.normalization == SoftmaxLossDesc::kBatchSize) count = batch.global_rows * outer_;
    if (desc_.normalization == SoftmaxLossDesc::kValid && desc_.has_ignore_label) {
      count = CountOfBatch(batch.batch_labels, desc_.ignore_label, labels_);
    }
    return static_cast<double>(std::max<int64_t>(count, 1));
  }

  /// What gradients are multiplied by.
  float GradientScale(const BatchContext& batch) const {
    return static_cast<float>(desc_.gradient_weight() / Normalizer(batch)) * batch.loss_scale;
  }

 private:
  const SoftmaxLossDesc desc_;
  const int64_t classes_, outer_ = 1, labels_ = 1;
};

/// The logits of `count` classes of a row from their cosines x; may work in place. @param label its index among them,
/// if it is one of them.
inline void MarginLogits(MarginRule margin, const float* x, int64_t count, int64_t label, float* logits) {
  const bool here = label >= 0 && label < count;
  const float of_label = here ? margin.LabelLogit(x[label]) : 0;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) logits[i] = margin.Logit(x[i]);
  if (here) logits[label] = of_label;
}

}  // namespace hp
