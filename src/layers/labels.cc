#include "layers/labels.h"

#include "layers/errors.h"
#include "proto/caffe.pb.h"

#include <cmath>

namespace hp {

std::optional<int> IgnoredLabel(const Layer& layer) {
  const caffe::LayerParameter& param = layer.param();
  if (param.loss_param().has_ignore_label()) return param.loss_param().ignore_label();
  if (param.accuracy_param().has_ignore_label()) return param.accuracy_param().ignore_label();
  return std::nullopt;
}

Status CheckLabels(std::span<const float> labels, int64_t classes, std::optional<int> ignore_label) {
  for (size_t row = 0; row < labels.size(); ++row) {
    const float label = labels[row];
    if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) continue;
    if (ignore_label && label == static_cast<float>(*ignore_label)) continue;
    return InvalidArgument("label %.9g of row %zu is not in 0..%lld", label, row, static_cast<long long>(classes - 1));
  }
  return OkStatus();
}

Status CheckLabelledInputs(const Layer& layer, const std::vector<Shape>& in, int axis) {
  const Shape& logits = in[0];
  if (logits.rank() < 2) {
    return LayerError(layer.param(), "bottom 0 has shape [%s]; wanted [rows, classes]", logits.ToString().c_str());
  }
  if (logits.CanonicalAxis(axis) != 1) {
    return LayerError(layer.param(), "axis %d of [%s] is not supported; classes must lie along axis 1", axis,
                      logits.ToString().c_str());
  }
  if (logits.count(2) != 1) {
    return LayerError(layer.param(), "bottom 0 has shape [%s]; a label for each pixel is not supported, only one a row",
                      logits.ToString().c_str());
  }
  if (in.size() > 1 && in[1].count() != logits[0]) {
    return LayerError(layer.param(), "labels have shape [%s]; wanted one for each of the %lld rows of [%s]",
                      in[1].ToString().c_str(), static_cast<long long>(logits[0]), logits.ToString().c_str());
  }
  return OkStatus();
}

}  // namespace hp
