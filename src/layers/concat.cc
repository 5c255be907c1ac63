#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Bottoms side by side along one axis (not along the rows, which belong to the division of the batch).
class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(const caffe::LayerParameter& param) : Layer(param) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    const int axis = in[0].CanonicalAxis(Axis());
    if (axis < 0 || axis >= in[0].rank()) {
      return LayerError(param_, "axis %d does not fit bottom shape [%s]", Axis(), in[0].ToString().c_str());
    }
    if (axis == 0) return LayerError(param_, "concatenation along axis 0, the rows, is not supported");
    int64_t sum = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].rank() != in[0].rank() || in[i].With(axis, 1) != in[0].With(axis, 1)) {
        return LayerError(param_, "bottom %zu has shape [%s], bottom 0 [%s]; only axis %d may differ", i,
                          in[i].ToString().c_str(), in[0].ToString().c_str(), axis);
      }
      sum += in[i][axis];
    }
    return std::vector<Shape>{in[0].With(axis, sum)};
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Concat(in[0].shape.CanonicalAxis(Axis()), in);
  }

 private:
  int Axis() const {
    const caffe::ConcatParameter& concat = param_.concat_param();
    return concat.has_concat_dim() ? static_cast<int>(concat.concat_dim()) : concat.axis();
  }
};

}  // namespace

StatusOr<LayerPtr> MakeConcatLayer(const caffe::LayerParameter& param) {
  if (param.concat_param().has_axis() && param.concat_param().has_concat_dim()) {
    return LayerError(param, "concat_param has both axis and concat_dim; give one");
  }
  return LayerPtr(std::make_unique<ConcatLayer>(param));
}

}  // namespace hp
