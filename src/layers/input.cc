#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// A source without a data set: its tops have the shapes that input_param gives and are filled from outside.
class InputLayer : public Layer {
 public:
  InputLayer(const caffe::LayerParameter& param, std::vector<Shape> shapes)
      : Layer(param), shapes_(std::move(shapes)) {}

  /// The declared shapes; a source has no bottoms, so `in` is empty.
  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>&) const override { return shapes_; }
  /// No op: nothing is computed.
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext&, const std::vector<TensorDesc>&) const override {
    return std::unique_ptr<Op>();
  }

 private:
  const std::vector<Shape> shapes_;
};

StatusOr<Shape> ReadShape(const caffe::LayerParameter& param, const caffe::BlobShape& blob) {
  const Shape shape(std::vector<int64_t>(blob.dim().begin(), blob.dim().end()));
  for (int64_t dim : shape.dims()) {
    if (dim < 1) return LayerError(param, "input shape [%s]: every dim must be 1 or more", shape.ToString().c_str());
  }
  if (shape.rank() == 0) return LayerError(param, "an input shape has no dims");
  return shape;
}

}  // namespace

StatusOr<LayerPtr> MakeInputLayer(const caffe::LayerParameter& param) {
  const auto& blobs = param.input_param().shape();
  if (blobs.size() != 1 && blobs.size() != param.top_size()) {
    return LayerError(param, "has %d tops and %d input_param shapes; give one for each top, or one for all",
                      param.top_size(), blobs.size());
  }
  std::vector<Shape> shapes;
  for (int top = 0; top < param.top_size(); ++top) {
    HP_ASSIGN_OR_RETURN(Shape shape, ReadShape(param, blobs[blobs.size() == 1 ? 0 : top]));
    shapes.push_back(std::move(shape));
  }
  return LayerPtr(std::make_unique<InputLayer>(param, std::move(shapes)));
}

}  // namespace hp
