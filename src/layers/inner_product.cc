#include "base/format.h"
#include "layers/errors.h"
#include "layers/factories.h"
#include "layers/filler.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// y = x W^T + b, x flattened from axis 1. A shard's op yields outputs [channel_begin, channel_end) and may get its
/// input in several blocks that stand side by side.
class InnerProductLayer : public Layer {
 public:
  explicit InnerProductLayer(const caffe::LayerParameter& param)
      : Layer(param),
        num_output_(param.inner_product_param().num_output()),
        bias_(param.inner_product_param().bias_term()) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    if (in[0].rank() < 2) {
      return LayerError(param_, "bottom shape [%s] does not fit; expected [rows, ...] of at least two axes",
                        in[0].ToString().c_str());
    }
    for (const ParamSpec& spec : Params(in)) {
      if (spec.filler == nullptr) continue;
      const std::string where = Format("layer \"%s\": inner_product_param: %s", name().c_str(),
                                       spec.shape.rank() > 1 ? "weight_filler" : "bias_filler");
      HP_RETURN_IF_ERROR(CheckFiller(*spec.filler, spec.shape, where));
    }
    return std::vector<Shape>{Shape{in[0][0], num_output_}};
  }

  std::vector<ParamSpec> Params(const std::vector<Shape>& in) const override {
    const caffe::InnerProductParameter& product = param_.inner_product_param();
    std::vector<ParamSpec> specs(bias_ ? 2 : 1);
    specs[0].name = name() + ".0";
    specs[0].shape = Shape{num_output_, in[0].count(1)};
    if (product.has_weight_filler()) specs[0].filler = &product.weight_filler();
    SetMultipliers(0, &specs[0]);
    if (!bias_) return specs;
    specs[1].name = name() + ".1";
    specs[1].shape = Shape{num_output_};
    if (product.has_bias_filler()) specs[1].filler = &product.bias_filler();
    SetMultipliers(1, &specs[1]);
    return specs;
  }

  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    InnerProductDesc desc;
    desc.num_output = context.channel_end - context.channel_begin;
    desc.bias = bias_;
    desc.input_gradient = context.input_gradient;
    return context.backend->InnerProduct(desc, in);
  }
  ChannelUse channel_use() const override { return ChannelUse::kSplitOutput; }

 private:
  const int64_t num_output_;
  const bool bias_;
};

}  // namespace

StatusOr<LayerPtr> MakeInnerProductLayer(const caffe::LayerParameter& param) {
  const caffe::InnerProductParameter& product = param.inner_product_param();
  if (product.num_output() < 1) {
    return LayerError(param, "inner_product_param has no num_output, or 0; expected at least 1");
  }
  if (product.transpose()) {
    return LayerError(param, "inner_product_param { transpose: true } is not supported; expected false");
  }
  if (product.axis() != 1) {
    return LayerError(param, "inner_product_param { axis: %d } is not supported; expected 1", product.axis());
  }
  return LayerPtr(std::make_unique<InnerProductLayer>(param));
}

}  // namespace hp
