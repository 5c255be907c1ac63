#pragma once

#include "backend/backend.h"
#include "backend/cuda/batch_sum.h"
#include "backend/cuda/softmax_rows.h"
#include "backend/label.h"
#include "backend/margin_rule.h"

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <optional>

// What counts in a loss and in an accuracy, and what it is divided by: the same for whole classes and for sliced ones.
// Only for .cu files.
namespace hp::cuda {

/// Which labels count: not ignored ones, nor those out of range.
struct CountedLabels {
  const float* labels;
  int64_t classes;
  bool has_ignore_label;
  int ignore_label;
  /// The row's label, or -1.
  HP_HOST_DEVICE int64_t operator()(int64_t row) const {
    const int64_t label = LabelOf(labels[row]);
    if (has_ignore_label && label == ignore_label) return -1;
    return label >= 0 && label < classes ? label : -1;
  }
};

/// @param desc SoftmaxLossDesc or AccuracyDesc.
template <typename Desc>
CountedLabels LabelsOf(const Desc& desc, const BatchContext& batch, int64_t classes) {
  return {batch.labels.data(), classes, desc.has_ignore_label, desc.ignore_label};
}

/// The logits that a margin makes of cosines (softmax_rows.h): `classes` of a row in memory, from class `first` on.
struct MarginLogits {
  const float* x;
  MarginRule margin;
  CountedLabels label_of;
  int64_t first;
  HP_HOST_DEVICE float operator()(int64_t row, int64_t i, int64_t offset) const {
    return first + i == label_of(row) ? margin.LabelLogit(x[offset]) : margin.Logit(x[offset]);
  }
};

/// Calls use(logits) with what reads the logits at x: plain ones, or those that a margin makes of cosines.
template <typename Use>
void WithLogits(const std::optional<MarginDesc>& margin, const float* x, const CountedLabels& label_of, int64_t first,
                const Use& use) {
  if (margin) return use(MarginLogits{x, MarginRule(*margin), label_of, first});
  use(PlainLogits{x});
}

/// The loss of a label with this probability. Caffe takes the logarithm of no less than FLT_MIN; a NaN stays.
HP_HOST_DEVICE inline float LabelLoss(float probability) {
  return -logf(probability < FLT_MIN ? FLT_MIN : probability);
}

/// The loss, and what the gradients are to be multiplied by.
struct StoreLoss {
  float gradient_weight;
  float *loss, *scale;
  HP_HOST_DEVICE void operator()(double sum, int64_t count) const {
    const double normalizer = count < 1 ? 1.0 : static_cast<double>(count);
    *loss = static_cast<float>(sum / normalizer);
    *scale = static_cast<float>(gradient_weight / normalizer);
  }
};

/// How many labels of the global batch are not ignored. @param labels of a sample: above 1, batch_labels holds
/// their counts.
inline SampleCount CountOfBatch(const BatchContext& batch, int ignore_label, int64_t labels) {
  return labels > 1 ? SampleCount::Sum(batch.batch_labels) : SampleCount::Valid(batch.batch_labels, ignore_label);
}

/// What SoftmaxLossDesc::normalization divides a loss by. @param outer,labels of a sample (ClassAxis).
inline SampleCount LossNormalizer(const SoftmaxLossDesc& desc, const BatchContext& batch, int64_t outer = 1,
                                  int64_t labels = 1) {
  if (desc.normalization == SoftmaxLossDesc::kNone) return SampleCount::Fixed(1);
  if (desc.normalization == SoftmaxLossDesc::kBatchSize) return SampleCount::Fixed(batch.global_rows * outer);
  if (desc.normalization == SoftmaxLossDesc::kValid && desc.has_ignore_label) {
    return CountOfBatch(batch, desc.ignore_label, labels);
  }
  return SampleCount::Fixed(batch.global_rows * labels);
}

struct StoreAccuracy {
  float* accuracy;
  HP_HOST_DEVICE void operator()(double right, int64_t count) const {
    *accuracy = count == 0 ? 0 : static_cast<float>(right / static_cast<double>(count));
  }
};

/// The valid labels of the whole batch.
inline SampleCount ValidLabels(const AccuracyDesc& desc, const BatchContext& batch, int64_t labels = 1) {
  return desc.has_ignore_label ? CountOfBatch(batch, desc.ignore_label, labels)
                               : SampleCount::Fixed(batch.global_rows * labels);
}

}  // namespace hp::cuda
