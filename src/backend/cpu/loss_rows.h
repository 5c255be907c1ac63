#pragma once

#include "backend/backend.h"
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
  /// @param classes of all shards. @param labels of a sample.
  LossRows(const SoftmaxLossDesc& desc, int64_t classes, int64_t labels = 1)
      : desc_(desc), classes_(classes), labels_(labels) {}

  /// Label `at` of BatchContext::labels, or -1 if it is not counted.
  int64_t CountedLabel(const BatchContext& batch, int64_t at) const {
    return IsCounted(batch, at) ? LabelOf(batch.labels[at]) : -1;
  }

  /// Ignored labels yield nothing, and so do those out of range, which CheckLabels refuses before they get here.
  bool IsCounted(const BatchContext& batch, int64_t at) const {
    const int64_t label = LabelOf(batch.labels[at]);
    if (desc_.has_ignore_label && label == desc_.ignore_label) return false;
    return label >= 0 && label < classes_;
  }

  double Normalizer(const BatchContext& batch) const {
    int64_t count = batch.global_rows * labels_;
    if (desc_.normalization == SoftmaxLossDesc::kNone) count = 1;
    if (desc_.normalization == SoftmaxLossDesc::kBatchSize) count = batch.global_rows;
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
  const int64_t classes_, labels_;
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
