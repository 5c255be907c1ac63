// y = f(x), element by element. `engine` chooses between Caffe's own code and cuDNN for the same function, so here,
// where there is one implementation, it has nothing to say.
#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

#include <cmath>

namespace hp {
namespace {

using activation::From;

/// ln(base), of Exp and Log; Caffe writes -1 for e.
float LogOfBase(float base) { return base == -1 ? 1.0f : std::log(base); }

}  // namespace

StatusOr<LayerOp> MakeAbsValOp(const LayerTraits&, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(activation::Abs{}, in);
}

StatusOr<LayerOp> MakeBnllOp(const LayerTraits&, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(activation::Bnll{}, in);
}

StatusOr<LayerOp> MakeClipOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::ClipParameter& param = layer.param().clip_param();
  return context.backend->Activation(activation::Clip{.min = param.min(), .max = param.max()}, in);
}

StatusOr<LayerOp> MakeEluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const float alpha = layer.param().elu_param().alpha();
  if (alpha < 0) return context.backend->Activation(activation::Elu<From::kInput>{alpha}, in);
  return context.backend->Activation(activation::Elu<From::kOutput>{alpha}, in);
}

// base^(shift + scale * x) as one exponential, as Caffe computes it.
StatusOr<LayerOp> MakeExpOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::ExpParameter& param = layer.param().exp_param();
  const float base = LogOfBase(param.base());
  return context.backend->Activation(
      activation::Exp{.rate = base * param.scale(), .factor = std::exp(base * param.shift())}, in);
}

StatusOr<LayerOp> MakeLogOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::LogParameter& param = layer.param().log_param();
  return context.backend->Activation(
      activation::Log{.factor = 1 / LogOfBase(param.base()), .scale = param.scale(), .shift = param.shift()}, in);
}

// Caffe's corners: without an x in it 0^0 is 1 and the derivative 0. A power of 1 or 2 is a product.
StatusOr<LayerOp> MakePowerOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::PowerParameter& param = layer.param().power_param();
  const float power = param.power(), scale = param.scale(), shift = param.shift();
  if (power == 0 || scale == 0) return context.backend->Activation(activation::Constant{std::pow(shift, power)}, in);
  if (power == 1) return context.backend->Activation(activation::Linear{scale, shift}, in);
  if (power == 2) return context.backend->Activation(activation::Square{scale, shift}, in);
  return context.backend->Activation(activation::Power{power, scale, shift}, in);
}

StatusOr<LayerOp> MakeReluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const float slope = layer.param().relu_param().negative_slope();
  if (slope < 0) return context.backend->Activation(activation::Relu<From::kInput>{slope}, in);
  return context.backend->Activation(activation::Relu<From::kOutput>{slope}, in);
}

StatusOr<LayerOp> MakeSigmoidOp(const LayerTraits&, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(activation::Sigmoid{}, in);
}

StatusOr<LayerOp> MakeSwishOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(activation::Swish{layer.param().swish_param().beta()}, in);
}

StatusOr<LayerOp> MakeTanhOp(const LayerTraits&, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(activation::Tanh{}, in);
}

StatusOr<LayerOp> MakeThresholdOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(activation::Threshold{layer.param().threshold_param().threshold()}, in);
}

}  // namespace hp
