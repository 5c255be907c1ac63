#include "layers/traits/common_checks.h"

#include "base/format.h"
#include "layers/traits/errors.h"
#include "layers/traits/filler_check.h"
#include "proto/caffe.pb.h"
#include "proto/several_bottoms.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace hp {
namespace {

bool IsIn(int number, const CountRange& count) { return number >= count.least && number <= count.most; }

std::string Range(const CountRange& count) {
  if (count.most == kAnyNumber) return Format("at least %d", count.least);
  return count.least == count.most ? Format("%d", count.least) : Format("%d to %d", count.least, count.most);
}

Status CheckCounts(const LayerType& type, const caffe::LayerParameter& param) {
  const int bottoms = param.bottom_size(), tops = param.top_size();
  if (!IsIn(bottoms, type.bottoms)) {
    const char* const several = TakesSeveralBottoms(type.name) ? ", or several with a top for each" : "";
    return LayerError(param, "has %d bottoms; %s takes %s%s", bottoms, type.name, Range(type.bottoms).c_str(), several);
  }
  if (!IsIn(tops, type.tops)) {
    return LayerError(param, "has %d tops; %s takes %s", tops, type.name, Range(type.tops).c_str());
  }
  return OkStatus();
}

/// Caffe reads most typed parameters of other layer types and forgets them (NetWarnings). An HDF5Data refuses a
/// transform_param there too, and margin_param is not Caffe's: there it is a mistake.
Status CheckForeignFields(const LayerType& type, const caffe::LayerParameter& param) {
  const bool transforms = param.has_transform_param() && std::string_view(type.name) == "HDF5Data";
  const char* const foreign = transforms                                                   ? "transform_param"
                              : param.has_margin_param() && !type.HasField("margin_param") ? "margin_param"
                                                                                           : nullptr;
  if (foreign == nullptr) return OkStatus();
  return LayerError(param, "%s does not belong to a layer of type %s", foreign, type.name);
}

/// Whether a layer's parameters say `bias_term: false`, or do not say true where that is the default.
bool HasNoBias(const google::protobuf::Message& typed) {
  const auto* const term = typed.GetDescriptor()->FindFieldByName("bias_term");
  return term != nullptr && !typed.GetReflection()->GetBool(typed, term);
}

/// Fillers of the layer's own typed parameters (convolution_param { weight_filler }): what is wrong without any shape.
Status CheckFillers(const LayerType& type, const caffe::LayerParameter& param) {
  std::vector<const google::protobuf::FieldDescriptor*> fields, inner;
  param.GetReflection()->ListFields(param, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != field->CPPTYPE_MESSAGE || field->is_repeated()) continue;
    if (!type.HasField(field->name())) continue;
    const google::protobuf::Message& typed = param.GetReflection()->GetMessage(param, field);
    inner.clear();
    typed.GetReflection()->ListFields(typed, &inner);
    for (const auto* part : inner) {
      if (part->message_type() != caffe::FillerParameter::descriptor() || part->is_repeated()) continue;
      if (part->name() == "bias_filler" && HasNoBias(typed)) continue;
      const google::protobuf::Message& filler = typed.GetReflection()->GetMessage(typed, part);
      HP_RETURN_IF_ERROR(CheckFillerFields(
          static_cast<const caffe::FillerParameter&>(filler),
          Format("layer \"%s\": %s: %s", param.name().c_str(), field->name().c_str(), part->name().c_str())));
    }
  }
  return OkStatus();
}

Status CheckUnsupportedFields(const caffe::LayerParameter& param) {
  if (param.propagate_down_size() > 0 && param.propagate_down_size() != param.bottom_size()) {
    return LayerError(param, "has %d bottoms and %d propagate_down values; give one for each bottom, or none",
                      param.bottom_size(), param.propagate_down_size());
  }
  for (const caffe::ParamSpec& spec : param.param()) {
    if (!spec.has_share_mode() || !spec.name().empty()) continue;
    return LayerError(param, "param { share_mode } says how a parameter is shared; expected a name beside it");
  }
  return OkStatus();
}

Status CheckLossWeights(const LayerType& type, const caffe::LayerParameter& param) {
  const int weights = param.loss_weight_size();
  const int tops = type.statistic ? std::max(param.top_size(), 1) : param.top_size();  // that of a loss makes itself
  if (weights == 0) return OkStatus();
  if (weights != tops) return LayerError(param, "has %d tops but %d loss_weight values", param.top_size(), weights);
  for (const float weight : param.loss_weight()) {
    if (!std::isfinite(weight)) return LayerError(param, "loss_weight %g: expected a finite number", weight);
  }
  const bool source = type.source != SourceKind::kNone;
  if (!type.statistic && !source) return OkStatus();
  for (int top = type.loss ? 1 : 0; top < weights; ++top) {
    if (param.loss_weight(top) == 0) continue;
    return LayerError(param, "loss_weight %g: top %d of %s can have none, since nothing can learn by it",
                      param.loss_weight(top), top, type.name);
  }
  return OkStatus();
}

}  // namespace

Status CheckCommonFields(const LayerType& type, const caffe::LayerParameter& param) {
  HP_RETURN_IF_ERROR(CheckCounts(type, param));
  HP_RETURN_IF_ERROR(CheckForeignFields(type, param));
  HP_RETURN_IF_ERROR(CheckUnsupportedFields(param));
  HP_RETURN_IF_ERROR(CheckFillers(type, param));
  return CheckLossWeights(type, param);
}

Status CheckInPlace(const LayerType& type, const caffe::LayerParameter& param) {
  for (int top = 0; top < param.top_size(); ++top) {
    for (int bottom = 0; bottom < param.bottom_size(); ++bottom) {
      if (param.top(top) != param.bottom(bottom)) continue;
      if (top == 0 && bottom == 0 && type.in_place) continue;
      return LayerError(param, "bottom and top are both \"%s\", but %s cannot work in place", param.top(top).c_str(),
                        type.name);
    }
  }
  return OkStatus();
}

Status CheckSize(const caffe::LayerParameter& param, const char* what, const Shape& shape) {
  if (shape.InBounds()) return OkStatus();
  return LayerError(param, "%s shape [%s] is too large; expected dims of at most %lld, and at most %lld elements", what,
                    shape.ToString().c_str(), static_cast<long long>(Shape::kMaxDim),
                    static_cast<long long>(Shape::kMaxElements));
}

Status CheckDim(const caffe::LayerParameter& param, const char* field, uint32_t value) {
  if (value >= 1 && value <= Shape::kMaxDim) return OkStatus();
  return LayerError(param, "%s: %u }: expected 1 to %lld", field, value, static_cast<long long>(Shape::kMaxDim));
}

std::vector<int64_t> AllElements(const caffe::LayerParameter&, const Shape& in, int) {
  std::vector<int64_t> elements(in.count());
  std::iota(elements.begin(), elements.end(), 0);
  return elements;
}

}  // namespace hp
