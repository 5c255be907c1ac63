#include "base/format.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/filler_check.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// What reads single rows of weights, a class each.
Status CheckRowsOfWeights(const caffe::LayerParameter& param) {
  const caffe::InnerProductParameter& product = param.inner_product_param();
  const char* const field = product.normalize() ? "normalize" : "sample_rate";
  if (product.transpose()) {
    return LayerError(param,
                      "inner_product_param { transpose: true } does not go with %s, which needs a row of weights "
                      "for each output; expected false",
                      field);
  }
  if (product.axis() == 1) return OkStatus();
  return LayerError(param, "inner_product_param { axis: %d } does not go with %s; expected 1", product.axis(), field);
}

Status CheckInnerProduct(const caffe::LayerParameter& param) {
  const caffe::InnerProductParameter& product = param.inner_product_param();
  if (product.num_output() < 1) {
    return LayerError(param, "inner_product_param: num_output is missing or 0; expected at least 1");
  }
  HP_RETURN_IF_ERROR(CheckDim(param, "inner_product_param { num_output", product.num_output()));
  if (product.normalize() || product.sample_rate() != 1) HP_RETURN_IF_ERROR(CheckRowsOfWeights(param));
  if (product.normalize() && product.bias_term()) {
    return LayerError(param, "inner_product_param { normalize: true } has no bias; expected bias_term: false");
  }
  if (!(product.sample_rate() > 0 && product.sample_rate() <= 1)) {
    return LayerError(param, "inner_product_param { sample_rate: %g }: expected a number above 0, at most 1",
                      product.sample_rate());
  }
  if (product.sample_rate() < 1 && product.bias_term()) {
    return LayerError(param, "inner_product_param { sample_rate: %g } has no bias; expected bias_term: false",
                      product.sample_rate());
  }
  return OkStatus();
}

int InnerProductBlobs(const caffe::LayerParameter& param) { return param.inner_product_param().bias_term() ? 2 : 1; }

float InnerProductSampleRate(const caffe::LayerParameter& param) { return param.inner_product_param().sample_rate(); }

/// A norm is one of all inputs, and a sample's rows are whole.
bool InnerProductSplitsInputs(const caffe::LayerParameter& param) {
  const caffe::InnerProductParameter& product = param.inner_product_param();
  return !product.normalize() && product.sample_rate() == 1 && product.axis() == 1;
}

int64_t InnerProductOutputs(const caffe::LayerParameter& param) { return param.inner_product_param().num_output(); }

/// Shards divide axis 1, which the outputs are for axis 1 alone. A negative one depends on the bottom.
int64_t InnerProductChannels(const caffe::LayerParameter& param) {
  return param.inner_product_param().axis() == 1 ? InnerProductOutputs(param) : 0;
}

std::vector<ParamSpec> InnerProductParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const caffe::InnerProductParameter& product = param.inner_product_param();
  std::vector<ParamSpec> specs(product.bias_term() ? 2 : 1);
  const int64_t inputs = in[0].count(in[0].CanonicalAxis(product.axis()));
  specs[0].transposed = product.transpose();
  specs[0].shape =
      product.transpose() ? Shape{inputs, InnerProductOutputs(param)} : Shape{InnerProductOutputs(param), inputs};
  if (product.has_weight_filler()) specs[0].filler = &product.weight_filler();
  if (!product.bias_term()) return specs;
  specs[1].shape = Shape{InnerProductOutputs(param)};
  if (product.has_bias_filler()) specs[1].filler = &product.bias_filler();
  return specs;
}

StatusOr<std::vector<Shape>> InnerProductShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() < 2) {
    return LayerError(param, "bottom shape [%s] does not fit; expected [rows, ...] of at least two axes",
                      in[0].ToString().c_str());
  }
  const int given = param.inner_product_param().axis(), axis = in[0].CanonicalAxis(given);
  if (axis < 1 || axis >= in[0].rank()) {
    return AxisError(param, "inner_product_param { axis", given, in[0]);
  }
  for (const ParamSpec& spec : InnerProductParams(param, in)) {
    if (spec.filler == nullptr) continue;
    const std::string where = Format("layer \"%s\": inner_product_param: %s", param.name().c_str(),
                                     spec.shape.rank() > 1 ? "weight_filler" : "bias_filler");
    HP_RETURN_IF_ERROR(CheckFiller(*spec.filler, spec.shape, where));
  }
  std::vector<int64_t> out(in[0].dims().begin(), in[0].dims().begin() + axis);
  out.push_back(InnerProductOutputs(param));
  return std::vector<Shape>{Shape(out)};
}

}  // namespace

LayerType InnerProductType() {
  return {.name = "InnerProduct",
          .fields = {"inner_product_param"},
          .channel_use = ChannelUse::kSplitOutput,
          .split_inputs = InnerProductSplitsInputs,
          .check = CheckInnerProduct,
          .output_shapes = InnerProductShapes,
          .most_blobs = 2,
          .blobs = InnerProductBlobs,
          .params = InnerProductParams,
          .split_outputs = InnerProductChannels,
          .sample_rate = InnerProductSampleRate};
}

}  // namespace hp
