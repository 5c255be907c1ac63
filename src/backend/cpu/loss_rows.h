#pragma once

#include "backend/backend.h"
#include "backend/cpu/label_count.h"
#include "backend/label.h"
#include "backend/margin_rule.h"

#include <algorithm>
#include <cstdint>

namespace hp {

/// Which rows of a micro-batch a SoftmaxLossDesc counts, and what it divides by. Source: Caffe's SoftmaxWithLossLayer.
class LossRows {
 public:
  /// @param classes of all shards.
  LossRows(const SoftmaxLossDesc& desc, int64_t classes) : desc_(desc), classes_(classes) {}

  /// The row's label, or -1 if it is not counted.
  int64_t CountedLabel(const BatchContext& batch, int64_t row) const {
    return IsCounted(batch, row) ? LabelOf(batch.labels[row]) : -1;
  }

  /// Ignored rows yield nothing, and so do labels out of range, which CheckLabels refuses before they get here.
  bool IsCounted(const BatchContext& batch, int64_t row) const {
    const int64_t label = LabelOf(batch.labels[row]);
    if (desc_.has_ignore_label && label == desc_.ignore_label) return false;
    return label >= 0 && label < classes_;
  }

  double Normalizer(const BatchContext& batch) const {
    int64_t count = batch.global_rows;
    if (desc_.normalization == SoftmaxLossDesc::kNone) count = 1;
    if (desc_.normalization == SoftmaxLossDesc::kValid && desc_.has_ignore_label) {
      count = CountValid(batch.batch_labels, desc_.ignore_label);
    }
    return static_cast<double>(std::max<int64_t>(count, 1));
  }

  /// What gradients are multiplied by.
  float GradientScale(const BatchContext& batch) const {
    return static_cast<float>(desc_.gradient_weight() / Normalizer(batch)) * batch.loss_scale;
  }

 private:
  const SoftmaxLossDesc desc_;
  const int64_t classes_;
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
