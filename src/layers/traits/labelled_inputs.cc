#include "layers/traits/labelled_inputs.h"

#include "base/format.h"
#include "layers/traits/errors.h"

namespace hp {
namespace {

// Counts of a row's labels go to other nodes as float32.
constexpr int64_t kMostLabels = int64_t{1} << 24;

Status CheckScores(const caffe::LayerParameter& param, const Shape& scores) {
  if (scores.rank() >= 2) return OkStatus();
  return LayerError(param, "bottom 0 has shape [%s]; expected [rows, classes]", scores.ToString().c_str());
}

Status CheckOneForEachRow(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in.size() < 2 || in[1].count() == in[0][0]) return OkStatus();
  return LayerError(param, "labels have shape [%s]; expected one for each of the %lld rows of [%s]",
                    in[1].ToString().c_str(), static_cast<long long>(in[0][0]), in[0].ToString().c_str());
}

}  // namespace

Status CheckLabelledRows(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(CheckScores(param, in[0]));
  return CheckOneForEachRow(param, in);
}

Status CheckLabelledAxis(const caffe::LayerParameter& param, const std::vector<Shape>& in, int axis) {
  const Shape& scores = in[0];
  HP_RETURN_IF_ERROR(CheckScores(param, scores));
  const int of_classes = scores.CanonicalAxis(axis);
  if (of_classes < 1 || of_classes >= scores.rank()) {
    return LayerError(param, "axis %d, of the classes, does not fit bottom shape [%s]; expected 1 to %d", axis,
                      scores.ToString().c_str(), scores.rank() - 1);
  }
  const int64_t labels = scores.count(1, of_classes) * scores.count(of_classes + 1);
  if (labels > kMostLabels) {
    return LayerError(param, "bottom 0 has shape [%s]; expected at most %lld pixels", scores.ToString().c_str(),
                      static_cast<long long>(kMostLabels));
  }
  if (labels == 1) return CheckOneForEachRow(param, in);
  if (in.size() < 2 || (in[1].dim(0) == scores[0] && in[1].count(1) == labels)) return OkStatus();
  return LayerError(param, "labels have shape [%s]; expected one for each of the %lld rows and %lld %s of [%s]",
                    in[1].ToString().c_str(), static_cast<long long>(scores[0]), static_cast<long long>(labels),
                    of_classes == 1 ? "pixels" : Format("elements beside axis %d", of_classes).c_str(),
                    scores.ToString().c_str());
}

}  // namespace hp
