#include "layers/traits/labelled_inputs.h"

#include "layers/traits/errors.h"

namespace hp {

Status CheckLabelledInputs(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis) {
  const Shape& logits = in[0];
  if (logits.rank() < 2) {
    return LayerError(param, "bottom 0 has shape [%s]; expected [rows, classes]", logits.ToString().c_str());
  }
  if (logits.CanonicalAxis(axis) != 1) {
    return LayerError(param, "axis %d of [%s] is not supported; classes must lie along axis 1", axis,
                      logits.ToString().c_str());
  }
  if (logits.count(2) != 1) {
    return LayerError(param, "bottom 0 has shape [%s]; one label per pixel is not supported, only one per row",
                      logits.ToString().c_str());
  }
  if (in.size() > 1 && in[1].count() != logits[0]) {
    return LayerError(param, "labels have shape [%s]; expected one for each of the %lld rows of [%s]",
                      in[1].ToString().c_str(), static_cast<long long>(logits[0]), logits.ToString().c_str());
  }
  return OkStatus();
}

}  // namespace hp
