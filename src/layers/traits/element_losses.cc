// Losses that are a sum over elements, EuclideanLoss, HingeLoss, MultinomialLogisticLoss and SigmoidCrossEntropyLoss,
// and one of distances, ContrastiveLoss.
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "layers/traits/labelled_inputs.h"
#include "proto/caffe.pb.h"

#include <cmath>
#include <optional>

namespace hp {

LossNormalization SigmoidLossNormalization(const caffe::LossParameter& param) {
  if (!param.has_normalization() && !param.has_normalize()) return LossNormalization::kBatchSize;
  return NormalizationOf(param);
}

namespace {

/// As many elements in each row, in whatever shapes.
StatusOr<std::vector<Shape>> PairShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const bool rows = in[0].rank() >= 1 && in[1].rank() >= 1 && in[0][0] == in[1][0];
  if (rows && in[0].count() == in[1].count()) return std::vector<Shape>{{1}};
  return LayerError(param, "bottoms have shapes [%s] and [%s]; expected as many elements in each row",
                    in[0].ToString().c_str(), in[1].ToString().c_str());
}

StatusOr<std::vector<Shape>> LabelledShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(CheckLabelledRows(param, in));
  return std::vector<Shape>{{1}};
}

/// As in Caffe, each number of a row is of a class of its own.
int64_t ClassesOfRow(const caffe::LayerParameter&, const Shape& scores) { return scores.count(1); }

std::optional<int> SigmoidLossIgnoreLabel(const caffe::LayerParameter& param) {
  return param.loss_param().has_ignore_label() ? std::optional(param.loss_param().ignore_label()) : std::nullopt;
}

bool SigmoidLossCounts(const caffe::LayerParameter& param) {
  return param.loss_param().has_ignore_label() &&
         SigmoidLossNormalization(param.loss_param()) == LossNormalization::kValid;
}

Status CheckContrastiveLoss(const caffe::LayerParameter& param) {
  const float margin = param.contrastive_loss_param().margin();
  if (margin >= 0 && std::isfinite(margin)) return OkStatus();
  return LayerError(param, "contrastive_loss_param { margin: %g }: expected a finite number of at least 0", margin);
}

/// Two tensors of one shape, and a number for each row.
StatusOr<std::vector<Shape>> ContrastiveShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() < 1 || in[0] != in[1]) {
    return LayerError(param, "bottoms have shapes [%s] and [%s]; expected equal ones (a Reshape or Flatten may help)",
                      in[0].ToString().c_str(), in[1].ToString().c_str());
  }
  if (in[2].rank() >= 1 && in[2][0] == in[0][0] && in[2].count() == in[2][0]) return std::vector<Shape>{{1}};
  return LayerError(param,
                    "its third bottom, which says what is similar, has shape [%s]; expected a number for each of "
                    "%lld rows",
                    in[2].ToString().c_str(), static_cast<long long>(in[0][0]));
}

LayerType Loss(const char* name, std::vector<const char*> fields) {
  return {.name = name,
          .fields = std::move(fields),
          .bottoms = {2, 2},
          .tops = {0, 1},
          .statistic = true,
          .loss = true,
          .output_shapes = PairShapes};
}

}  // namespace

LayerType ContrastiveType() {
  LayerType type = Loss("ContrastiveLoss", {"contrastive_loss_param"});
  type.bottoms = {3, 3};
  type.label_targets = true;
  type.fixed_targets = true;
  type.label_bottom = 2;
  type.check = CheckContrastiveLoss;
  type.output_shapes = ContrastiveShapes;
  return type;
}

LayerType EuclideanLossType() {
  LayerType type = Loss("EuclideanLoss", {});
  type.label_targets = true;
  type.pairs = true;
  return type;
}

LayerType HingeLossType() {
  LayerType type = Loss("HingeLoss", {"hinge_loss_param"});
  type.reads_labels = true;
  type.output_shapes = LabelledShapes;
  type.classes = ClassesOfRow;
  return type;
}

LayerType LogisticLossType() {
  LayerType type = Loss("MultinomialLogisticLoss", {});
  type.reads_labels = true;
  type.output_shapes = LabelledShapes;
  type.classes = ClassesOfRow;
  return type;
}

LayerType SigmoidLossType() {
  LayerType type = Loss("SigmoidCrossEntropyLoss", {"loss_param"});
  type.label_targets = true;
  type.fixed_targets = true;
  type.pairs = true;
  type.needs_batch_labels = SigmoidLossCounts;
  type.ignore_label = SigmoidLossIgnoreLabel;
  return type;
}

}  // namespace hp
