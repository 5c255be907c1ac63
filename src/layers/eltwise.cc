#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Product, weighted sum or maximum of bottoms of one shape, element by element.
class EltwiseLayer : public Layer {
 public:
  explicit EltwiseLayer(const caffe::LayerParameter& param) : Layer(param) {
    const caffe::EltwiseParameter& eltwise = param.eltwise_param();
    if (eltwise.operation() == caffe::EltwiseParameter::PROD) desc_.operation = EltwiseDesc::kProd;
    if (eltwise.operation() == caffe::EltwiseParameter::MAX) desc_.operation = EltwiseDesc::kMax;
    desc_.coeff.assign(eltwise.coeff().begin(), eltwise.coeff().end());
  }

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    for (size_t i = 1; i < in.size(); ++i) {
      if (in[i] == in[0]) continue;
      return LayerError(param_, "bottom %zu has shape [%s], bottom 0 [%s]; they must be equal", i,
                        in[i].ToString().c_str(), in[0].ToString().c_str());
    }
    return std::vector<Shape>{in[0]};
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Eltwise(desc_, in);
  }
  ChannelUse channel_use() const override { return ChannelUse::kElementwise; }

 private:
  EltwiseDesc desc_;
};

}  // namespace

StatusOr<LayerPtr> MakeEltwiseLayer(const caffe::LayerParameter& param) {
  const caffe::EltwiseParameter& eltwise = param.eltwise_param();
  if (eltwise.coeff_size() > 0 && eltwise.operation() != caffe::EltwiseParameter::SUM) {
    return LayerError(param, "coeff is for operation SUM alone");
  }
  if (eltwise.coeff_size() > 0 && eltwise.coeff_size() != param.bottom_size()) {
    return LayerError(param, "has %d coeff values for %d bottoms", eltwise.coeff_size(), param.bottom_size());
  }
  if (!eltwise.stable_prod_grad()) {
    return LayerError(param, "stable_prod_grad: false is not supported (only the gradient that survives zeros is)");
  }
  return LayerPtr(std::make_unique<EltwiseLayer>(param));
}

}  // namespace hp
