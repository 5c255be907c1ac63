#include "layers/traits/labelled_inputs.h"

#include "layers/traits/errors.h"

namespace hp {
namespace {

// Counts of a row's labels go to other nodes as float32.
constexpr int64_t kMostPixels = int64_t{1} << 24;

}  // namespace

Status CheckPixelInputs(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis) {
  const Shape& logits = in[0];
  if (logits.rank() < 2) {
    return LayerError(param, "bottom 0 has shape [%s]; expected [rows, classes]", logits.ToString().c_str());
  }
  if (logits.CanonicalAxis(axis) != 1) {
    return LayerError(param, "axis %d of [%s] is not supported; classes must lie along axis 1", axis,
                      logits.ToString().c_str());
  }
  const int64_t pixels = logits.count(2);
  if (pixels > kMostPixels) {
    return LayerError(param, "bottom 0 has shape [%s]; expected at most %lld pixels", logits.ToString().c_str(),
                      static_cast<long long>(kMostPixels));
  }
  if (in.size() < 2 || (in[1].dim(0) == logits[0] && in[1].count(1) == pixels)) return OkStatus();
  if (pixels == 1) {
    if (in[1].count() == logits[0]) return OkStatus();
    return LayerError(param, "labels have shape [%s]; expected one for each of the %lld rows of [%s]",
                      in[1].ToString().c_str(), static_cast<long long>(logits[0]), logits.ToString().c_str());
  }
  return LayerError(param, "labels have shape [%s]; expected one for each of the %lld rows and %lld pixels of [%s]",
                    in[1].ToString().c_str(), static_cast<long long>(logits[0]), static_cast<long long>(pixels),
                    logits.ToString().c_str());
}

Status CheckLabelledInputs(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis) {
  if (in[0].rank() >= 2 && in[0].CanonicalAxis(axis) == 1 && in[0].count(2) != 1) {
    return LayerError(param, "bottom 0 has shape [%s]; one label per pixel is not supported, only one per row",
                      in[0].ToString().c_str());
  }
  return CheckPixelInputs(param, in, axis);
}

}  // namespace hp
