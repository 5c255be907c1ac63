#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// y = exp(x) / sum of exp(x) along one axis. `engine` chooses between implementations of the same function: accepted.
class SoftmaxLayer : public Layer {
 public:
  explicit SoftmaxLayer(const caffe::LayerParameter& param) : Layer(param) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    const int axis = in[0].CanonicalAxis(param_.softmax_param().axis());
    if (axis < 1 || axis >= in[0].rank()) {
      return LayerError(param_, "softmax_param { axis: %d } does not fit bottom shape [%s]; wanted 1 to %d",
                        param_.softmax_param().axis(), in[0].ToString().c_str(), in[0].rank() - 1);
    }
    return in;
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Softmax(in[0].shape.CanonicalAxis(param_.softmax_param().axis()), in);
  }
};

}  // namespace

StatusOr<LayerPtr> MakeSoftmaxLayer(const caffe::LayerParameter& param) {
  return LayerPtr(std::make_unique<SoftmaxLayer>(param));
}

}  // namespace hp
