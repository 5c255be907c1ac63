// SoftmaxWithLoss, and InfogainLoss, which has a weight for each pair of label and class.
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "layers/traits/labelled_inputs.h"
#include "proto/caffe.pb.h"

#include <cmath>

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

std::span<const float> InfogainMatrix(const caffe::LayerParameter& param) {
  const auto& data = param.infogain_loss_param().matrix().data();
  return {data.data(), static_cast<size_t>(data.size())};
}

namespace {

Status CheckSoftmaxLoss(const caffe::LayerParameter& param) {
  constexpr float kPi = 3.14159274f;  // as a float32 has it
  const caffe::MarginParameter& margin = param.margin_param();
  if (!(margin.scale() > 0) || !std::isfinite(margin.scale())) {
    return LayerError(param, "margin_param { scale: %g }: expected a number above 0", margin.scale());
  }
  if (!(margin.angle() >= 0 && margin.angle() <= kPi)) {
    return LayerError(param, "margin_param { angle: %g }: expected 0 to pi", margin.angle());
  }
  if (!std::isfinite(margin.cosine())) {
    return LayerError(param, "margin_param { cosine: %g }: expected a finite number", margin.cosine());
  }
  return OkStatus();
}

int SoftmaxLossAxis(const caffe::LayerParameter& param, const Shape& scores) {
  return scores.CanonicalAxis(param.softmax_param().axis());
}

/// Top 0 is the loss; a second top, where there is one, is the softmax.
StatusOr<std::vector<Shape>> SoftmaxLossShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(CheckLabelledAxis(param, in, param.softmax_param().axis()));
  if (param.has_margin_param() && (SoftmaxLossAxis(param, in[0]) != 1 || in[0].count(2) != 1)) {
    return LayerError(param, "margin_param with logits [%s]; expected cosines [rows, classes]",
                      in[0].ToString().c_str());
  }
  std::vector<Shape> out = {{1}};
  if (param.top_size() > 1) out.push_back(in[0]);
  return out;
}

int64_t SoftmaxLossClasses(const caffe::LayerParameter& param, const Shape& scores) {
  return scores.dim(SoftmaxLossAxis(param, scores));
}

int64_t InfogainLossClasses(const caffe::LayerParameter& param, const Shape& scores) {
  return scores.dim(scores.CanonicalAxis(param.infogain_loss_param().axis()));
}

Status CheckInfogainLoss(const caffe::LayerParameter& param) {
  if (param.bottom_size() > 2) {
    return LayerError(param,
                      "its matrix as a third bottom is not supported, since all bottoms have rows of samples; expected "
                      "infogain_loss_param { source }, a file of it");
  }
  if (param.loss_param().has_normalize()) {
    return LayerError(param, "loss_param { normalize } is not read by InfogainLoss; expected normalization");
  }
  if (const std::string& source = param.infogain_loss_param().source(); !source.empty()) {
    return LayerError(param, "infogain_loss_param { source: \"%s\" }: no such file", source.c_str());
  }
  if (InfogainMatrix(param).empty()) {
    return LayerError(param,
                      "infogain_loss_param has no source; expected the file of a matrix with a row for each label, a "
                      "binary BlobProto");
  }
  return OkStatus();
}

/// Top 0 is the loss; a second top, where there is one, is the softmax.
StatusOr<std::vector<Shape>> InfogainLossShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(CheckLabelledAxis(param, in, param.infogain_loss_param().axis()));
  const int64_t classes = InfogainLossClasses(param, in[0]), count = static_cast<int64_t>(InfogainMatrix(param).size());
  if (classes > count || classes * classes != count) {
    return LayerError(param, "its matrix has %lld numbers; expected %lld x %lld, for the classes of bottom 0, [%s]",
                      static_cast<long long>(count), static_cast<long long>(classes), static_cast<long long>(classes),
                      in[0].ToString().c_str());
  }
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
  const int axis = param.softmax_param().axis();
  if (param.top_size() > 1 || (axis != 1 && axis != -1)) return std::nullopt;
  return ClassSplit{.numbers = 3, .last_axis = axis == -1};
}

/// The softmax as a second top would be one of all classes. A sampled product has two axes, so the last one is its
/// classes'.
bool SoftmaxLossReadsSample(const caffe::LayerParameter& param) {
  const int axis = param.softmax_param().axis();
  return param.top_size() <= 1 && (axis == 1 || axis == -1);
}

}  // namespace

LayerType InfogainLossType() {
  return {.name = "InfogainLoss",
          .fields = {"infogain_loss_param", "loss_param"},
          .bottoms = {2, 3},
          .tops = {0, 2},
          .reads_labels = true,
          .statistic = true,
          .loss = true,
          .check = CheckInfogainLoss,
          .output_shapes = InfogainLossShapes,
          .needs_batch_labels = SoftmaxLossNeedsBatchLabels,
          .classes = InfogainLossClasses,
          .ignore_label = SoftmaxLossIgnoreLabel};
}

LayerType SoftmaxLossType() {
  return {.name = "SoftmaxWithLoss",
          .fields = {"loss_param", "margin_param", "softmax_param"},
          .bottoms = {2, 2},
          .tops = {0, 2},
          .reads_labels = true,
          .statistic = true,
          .loss = true,
          .check = CheckSoftmaxLoss,
          .output_shapes = SoftmaxLossShapes,
          .reads_sample = SoftmaxLossReadsSample,
          .class_split = SoftmaxLossClassSplit,
          .needs_batch_labels = SoftmaxLossNeedsBatchLabels,
          .classes = SoftmaxLossClasses,
          .ignore_label = SoftmaxLossIgnoreLabel};
}

}  // namespace hp
