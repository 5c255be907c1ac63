#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Makes one axis of axes [axis, end_axis], in NCHW order whatever the layout is.
class FlattenLayer : public Layer {
 public:
  explicit FlattenLayer(const caffe::LayerParameter& param) : Layer(param) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    const Shape& shape = in[0];
    const caffe::FlattenParameter& flatten = param_.flatten_param();
    const int begin = shape.CanonicalAxis(flatten.axis()), end = shape.CanonicalAxis(flatten.end_axis());
    if (begin < 1 || end < begin || end >= shape.rank()) {
      return LayerError(param_,
                        "flatten_param { axis: %d end_axis: %d } does not fit bottom shape [%s]; wanted axes "
                        "from 1 on (axis 0 counts the rows), the first not behind the last",
                        flatten.axis(), flatten.end_axis(), shape.ToString().c_str());
    }
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + begin);
    dims.push_back(shape.count(begin, end + 1));
    dims.insert(dims.end(), shape.dims().begin() + end + 1, shape.dims().end());
    return std::vector<Shape>{Shape(dims)};
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, OutputShapes({in[0].shape}));
    return context.backend->Flatten(out[0], in);
  }
};

}  // namespace

StatusOr<LayerPtr> MakeFlattenLayer(const caffe::LayerParameter& param) {
  return LayerPtr(std::make_unique<FlattenLayer>(param));
}

}  // namespace hp
