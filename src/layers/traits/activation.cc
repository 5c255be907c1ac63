#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

#include <cmath>

namespace hp {
namespace {

using Parameter = const caffe::LayerParameter&;

StatusOr<std::vector<Shape>> ActivationShapes(Parameter, const std::vector<Shape>& in) { return in; }

/// y = f(x), element by element.
LayerType Activation(const char* name, std::vector<const char*> fields) {
  return {.name = name,
          .fields = std::move(fields),
          .channel_use = ChannelUse::kElementwise,
          .in_place = true,
          .output_shapes = ActivationShapes};
}

bool Always(Parameter) { return true; }

/// @param field "elu_param { alpha", for the message.
Status CheckFinite(Parameter param, const char* field, float value) {
  if (std::isfinite(value)) return OkStatus();
  return LayerError(param, "%s: %g }: expected a finite number", field, value);
}

/// The base of Exp or Log, of which -1 is e. @param other what else is no base.
Status CheckBase(Parameter param, const char* field, float base, float other, const char* expected) {
  if (base == -1 || (base > 0 && base != other && std::isfinite(base))) return OkStatus();
  return LayerError(param, "%s { base: %g }: expected %s, or -1 for e", field, base, expected);
}

Status CheckRelu(Parameter param) {
  return CheckFinite(param, "relu_param { negative_slope", param.relu_param().negative_slope());
}

Status CheckElu(Parameter param) { return CheckFinite(param, "elu_param { alpha", param.elu_param().alpha()); }

Status CheckPower(Parameter param) {
  const caffe::PowerParameter& power = param.power_param();
  HP_RETURN_IF_ERROR(CheckFinite(param, "power_param { power", power.power()));
  HP_RETURN_IF_ERROR(CheckFinite(param, "power_param { scale", power.scale()));
  return CheckFinite(param, "power_param { shift", power.shift());
}

bool HasPower(Parameter param) {
  const caffe::PowerParameter& power = param.power_param();
  return power.scale() != 0 && power.power() != 0 && power.power() != 1;
}

Status CheckExp(Parameter param) {
  const caffe::ExpParameter& exp = param.exp_param();
  HP_RETURN_IF_ERROR(CheckBase(param, "exp_param", exp.base(), 0, "a number above 0"));
  HP_RETURN_IF_ERROR(CheckFinite(param, "exp_param { scale", exp.scale()));
  return CheckFinite(param, "exp_param { shift", exp.shift());
}

Status CheckLog(Parameter param) {
  const caffe::LogParameter& log = param.log_param();
  HP_RETURN_IF_ERROR(CheckBase(param, "log_param", log.base(), 1, "a number above 0 that is not 1"));
  HP_RETURN_IF_ERROR(CheckFinite(param, "log_param { scale", log.scale()));
  return CheckFinite(param, "log_param { shift", log.shift());
}

Status CheckThreshold(Parameter param) {
  return CheckFinite(param, "threshold_param { threshold", param.threshold_param().threshold());
}

Status CheckSwish(Parameter param) { return CheckFinite(param, "swish_param { beta", param.swish_param().beta()); }

/// The text parser has seen to it that a clip_param has both numbers.
Status CheckClip(Parameter param) {
  if (!param.has_clip_param()) return LayerError(param, "has no clip_param; expected clip_param { min: A max: B }");
  const caffe::ClipParameter& clip = param.clip_param();
  if (clip.min() <= clip.max()) return OkStatus();
  return LayerError(param, "clip_param { min: %g max: %g }: expected a max of at least min", clip.min(), clip.max());
}

}  // namespace

LayerType AbsValType() {
  LayerType type = Activation("AbsVal", {});
  type.gradient_reads_input = Always;
  return type;
}

LayerType BnllType() { return Activation("BNLL", {}); }

LayerType ClipType() {
  LayerType type = Activation("Clip", {"clip_param"});
  type.check = CheckClip;
  type.gradient_reads_input = Always;
  return type;
}

LayerType EluType() {
  LayerType type = Activation("ELU", {"elu_param"});
  type.check = CheckElu;
  type.gradient_reads_input = [](Parameter param) { return param.elu_param().alpha() < 0; };
  return type;
}

LayerType ExpType() {
  LayerType type = Activation("Exp", {"exp_param"});
  type.check = CheckExp;
  return type;
}

LayerType LogType() {
  LayerType type = Activation("Log", {"log_param"});
  type.check = CheckLog;
  type.gradient_reads_input = Always;
  return type;
}

LayerType PowerType() {
  LayerType type = Activation("Power", {"power_param"});
  type.check = CheckPower;
  type.gradient_reads_input = HasPower;
  return type;
}

LayerType ReluType() {
  LayerType type = Activation("ReLU", {"relu_param"});
  type.check = CheckRelu;
  type.gradient_reads_input = [](Parameter param) { return param.relu_param().negative_slope() < 0; };
  return type;
}

LayerType SigmoidType() { return Activation("Sigmoid", {"sigmoid_param"}); }

LayerType SwishType() {
  LayerType type = Activation("Swish", {"swish_param"});
  type.check = CheckSwish;
  type.gradient_reads_input = Always;
  return type;
}

LayerType TanhType() { return Activation("TanH", {"tanh_param"}); }

LayerType ThresholdType() {
  LayerType type = Activation("Threshold", {"threshold_param"});
  type.check = CheckThreshold;
  type.has_gradient = false;
  return type;
}

}  // namespace hp
