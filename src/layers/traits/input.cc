#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

StatusOr<Shape> ReadShape(const caffe::LayerParameter& param, const caffe::BlobShape& blob) {
  const Shape shape(std::vector<int64_t>(blob.dim().begin(), blob.dim().end()));
  for (int64_t dim : shape.dims()) {
    if (dim < 1) return LayerError(param, "input shape [%s]: every dim must be 1 or more", shape.ToString().c_str());
  }
  if (shape.rank() == 0) return LayerError(param, "an input shape has no dims");
  HP_RETURN_IF_ERROR(CheckSize(param, "input", shape));
  return shape;
}

/// As declared; a source has no bottoms.
StatusOr<std::vector<Shape>> InputShapes(const caffe::LayerParameter& param, const std::vector<Shape>&) {
  const auto& blobs = param.input_param().shape();
  std::vector<Shape> shapes;
  for (int top = 0; top < param.top_size(); ++top) {
    HP_ASSIGN_OR_RETURN(Shape shape, ReadShape(param, blobs[blobs.size() == 1 ? 0 : top]));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Status CheckInput(const caffe::LayerParameter& param) {
  const int shapes = param.input_param().shape_size();
  if (shapes != 1 && shapes != param.top_size()) {
    return LayerError(param, "has %d tops and %d input_param shapes; give one for each top, or one for all",
                      param.top_size(), shapes);
  }
  return InputShapes(param, {}).status();
}

int64_t InputBatchSize(const caffe::LayerParameter& param) {
  const caffe::InputParameter& input = param.input_param();
  return input.shape_size() > 0 && input.shape(0).dim_size() > 0 ? input.shape(0).dim(0) : -1;
}

}  // namespace

LayerType InputType() {
  return {.name = "Input",
          .fields = {"input_param"},
          .bottoms = {0, 0},
          .tops = {1, kAnyNumber},
          .source = SourceKind::kInput,
          .check = CheckInput,
          .output_shapes = InputShapes,
          .batch_size = InputBatchSize};
}

}  // namespace hp
