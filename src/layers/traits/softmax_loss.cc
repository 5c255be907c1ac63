#include "layers/traits/built_in_types.h"
#include "layers/traits/fields.h"
#include "layers/traits/labelled_inputs.h"
#include "proto/caffe.pb.h"

namespace hp {

LossNormalization NormalizationOf(const caffe::LossParameter& param) {
  if (!param.has_normalization() && param.has_normalize()) {
    return param.normalize() ? LossNormalization::kValid : LossNormalization::kBatchSize;
  }
  switch (param.normalization()) {
    case caffe::LossParameter::FULL:
      return LossNormalization::kFull;
    case caffe::LossParameter::VALID:
      return LossNormalization::kValid;
    case caffe::LossParameter::BATCH_SIZE:
      return LossNormalization::kBatchSize;
    case caffe::LossParameter::NONE:
      return LossNormalization::kNone;
  }
  return LossNormalization::kValid;
}

namespace {

/// Top 0 is the loss; a second top, where there is one, is the softmax.
StatusOr<std::vector<Shape>> SoftmaxLossShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(CheckLabelledInputs(param, in, param.softmax_param().axis()));
  std::vector<Shape> out = {{1}};
  if (param.top_size() > 1) out.push_back(in[0]);
  return out;
}

std::optional<int> SoftmaxLossIgnoreLabel(const caffe::LayerParameter& param) {
  if (!param.loss_param().has_ignore_label()) return std::nullopt;
  return param.loss_param().ignore_label();
}

bool SoftmaxLossNeedsBatchLabels(const caffe::LayerParameter& param) {
  return SoftmaxLossIgnoreLabel(param) && NormalizationOf(param.loss_param()) == LossNormalization::kValid;
}

/// The largest logit, the sum of exponentials, the label's logit. Not with the softmax as a second top: it would lie on
/// the shards while the loss lies on one.
std::optional<ClassSplit> SoftmaxLossClassSplit(const caffe::LayerParameter& param) {
  if (param.top_size() > 1) return std::nullopt;
  return ClassSplit{.numbers = 3};
}

}  // namespace

LayerType SoftmaxLossType() {
  return {.name = "SoftmaxWithLoss",
          .fields = {"loss_param", "softmax_param"},
          .bottoms = {2, 2},
          .tops = {0, 2},
          .reads_labels = true,
          .statistic = true,
          .loss = true,
          .output_shapes = SoftmaxLossShapes,
          .class_split = SoftmaxLossClassSplit,
          .needs_batch_labels = SoftmaxLossNeedsBatchLabels,
          .ignore_label = SoftmaxLossIgnoreLabel};
}

}  // namespace hp
