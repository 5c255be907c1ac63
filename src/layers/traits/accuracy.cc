#include "layers/traits/accuracy.h"

#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/labelled_inputs.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

Status CheckAccuracy(const caffe::LayerParameter& param) {
  if (param.top_size() > 1) return LayerError(param, "a second top (accuracy of each class) is not supported");
  if (param.accuracy_param().top_k() == 0) return LayerError(param, "top_k must be 1 or more");
  return OkStatus();
}

int64_t AccuracyClasses(const caffe::LayerParameter& param, const Shape& scores) {
  return scores.dim(scores.CanonicalAxis(param.accuracy_param().axis()));
}

StatusOr<std::vector<Shape>> AccuracyShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const caffe::AccuracyParameter& accuracy = param.accuracy_param();
  HP_RETURN_IF_ERROR(CheckLabelledAxis(param, in, accuracy.axis()));
  const int64_t classes = AccuracyClasses(param, in[0]);
  if (accuracy.top_k() > classes) {
    return LayerError(param, "top_k %u is more than the %lld classes of [%s]", accuracy.top_k(),
                      static_cast<long long>(classes), in[0].ToString().c_str());
  }
  return std::vector<Shape>{{1}};
}

std::optional<int> AccuracyIgnoreLabel(const caffe::LayerParameter& param) {
  if (!param.accuracy_param().has_ignore_label()) return std::nullopt;
  return param.accuracy_param().ignore_label();
}

/// The share is taken of the rows whose labels are not ignored.
bool AccuracyNeedsBatchLabels(const caffe::LayerParameter& param) { return param.accuracy_param().has_ignore_label(); }

/// The label's score, and the largest of the others.
std::optional<ClassSplit> AccuracyClassSplit(const caffe::LayerParameter& param) {
  const int axis = param.accuracy_param().axis();
  if (axis != 1 && axis != -1) return std::nullopt;
  const int64_t numbers = 1 + int64_t{param.accuracy_param().top_k()};
  return ClassSplit{.numbers = numbers, .on_one_shard = true, .last_axis = axis == -1};
}

constexpr char kAccuracy[] = "Accuracy";

}  // namespace

uint32_t GuessesOf(const LayerTraits& layer) {
  return layer.type() == kAccuracy ? layer.param().accuracy_param().top_k() : 0;
}

LayerType AccuracyType() {
  return {.name = kAccuracy,
          .fields = {"accuracy_param"},
          .bottoms = {2, 2},
          .tops = {1, 2},
          .reads_labels = true,
          .statistic = true,
          .check = CheckAccuracy,
          .output_shapes = AccuracyShapes,
          .class_split = AccuracyClassSplit,
          .needs_batch_labels = AccuracyNeedsBatchLabels,
          .classes = AccuracyClasses,
          .ignore_label = AccuracyIgnoreLabel};
}

}  // namespace hp
