#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// ReLU, Sigmoid and TanH: y = f(x), element by element. Their `engine` field chooses between Caffe's own code and
/// cuDNN for the same function, so here, where there is one implementation, it has nothing to say.
class ActivationLayer : public Layer {
 public:
  ActivationLayer(const caffe::LayerParameter& param, const ActivationDesc& desc) : Layer(param), desc_(desc) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override { return in; }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Activation(desc_, in);
  }
  ChannelUse channel_use() const override { return ChannelUse::kElementwise; }
  bool allows_in_place() const override { return true; }

 private:
  const ActivationDesc desc_;
};

}  // namespace

StatusOr<LayerPtr> MakeActivationLayer(const caffe::LayerParameter& param) {
  ActivationDesc desc;
  if (param.type() == "Sigmoid") desc.kind = ActivationDesc::kSigmoid;
  if (param.type() == "TanH") desc.kind = ActivationDesc::kTanh;
  if (param.type() == "ReLU") desc.negative_slope = param.relu_param().negative_slope();
  // The gradient is found from the output, whose sign is the input's only for slopes that are not negative.
  if (!(desc.negative_slope >= 0)) {
    return LayerError(param, "negative_slope %g is not supported; it must be 0 or more", desc.negative_slope);
  }
  return LayerPtr(std::make_unique<ActivationLayer>(param, desc));
}

}  // namespace hp
