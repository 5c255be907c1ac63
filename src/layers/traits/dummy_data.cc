#include "base/format.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "layers/traits/filler_check.h"
#include "layers/traits/source_shapes.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Caffe's older way to give a shape: num, channels, height and width, each once or for each top.
StatusOr<Shape> LegacyDummyShape(const caffe::LayerParameter& param, int top) {
  const caffe::DummyDataParameter& dummy = param.dummy_data_param();
  if (dummy.shape_size() > 0) return LayerError(param, "has both shape and num, channels, height or width; give shape");
  std::vector<int64_t> dims;
  for (const auto* field : {&dummy.num(), &dummy.channels(), &dummy.height(), &dummy.width()}) {
    if (field->size() != 1 && field->size() != param.top_size()) {
      return LayerError(param, "num, channels, height and width: expected one value of each for all tops, or %d for %d",
                        param.top_size(), param.top_size());
    }
    dims.push_back(field->Get(field->size() == 1 ? 0 : top));
  }
  return Shape(dims);
}

StatusOr<Shape> WrittenDummyShape(const caffe::LayerParameter& param, int top) {
  const caffe::DummyDataParameter& dummy = param.dummy_data_param();
  if (dummy.num_size() + dummy.channels_size() + dummy.height_size() + dummy.width_size() > 0)
    return LegacyDummyShape(param, top);
  if (dummy.shape_size() != 1 && dummy.shape_size() != param.top_size()) {
    return LayerError(param, "has %d dummy_data_param shapes for %d tops; give one for each top, or one for all",
                      dummy.shape_size(), param.top_size());
  }
  const caffe::BlobShape& shape = dummy.shape(dummy.shape_size() == 1 ? 0 : top);
  return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
}

Status CheckDummyData(const caffe::LayerParameter& param) {
  const int fillers = param.dummy_data_param().data_filler_size();
  if (fillers > 1 && fillers != param.top_size()) {
    return LayerError(param, "has %d data_filler entries for %d tops; give one for each top, or one for all", fillers,
                      param.top_size());
  }
  for (int top = 0; top < param.top_size(); ++top) {
    HP_ASSIGN_OR_RETURN(const Shape shape, DummyShape(param, top));
    if (const caffe::FillerParameter* filler = DummyFiller(param, top)) {
      HP_RETURN_IF_ERROR(CheckFiller(*filler, shape, Format("layer \"%s\": data_filler", param.name().c_str())));
    }
  }
  return OkStatus();
}

int64_t DummyBatchSize(const caffe::LayerParameter& param) {
  const StatusOr<Shape> shape = DummyShape(param, 0);
  return shape.ok() ? (*shape)[0] : -1;
}

}  // namespace

StatusOr<Shape> DummyShape(const caffe::LayerParameter& param, int top) {
  // A table is checked before the net, so nothing is known of the layer yet.
  if (top >= param.top_size()) return LayerError(param, "has no top %d", top);
  HP_ASSIGN_OR_RETURN(const Shape shape, WrittenDummyShape(param, top));
  const char* const name = param.top(top).c_str();
  const int rank = shape.rank();
  const bool fits = rank >= 1 && rank <= 4 && shape.InBounds() && shape.count() > 0;
  if (!fits) {
    return LayerError(param, "top \"%s\" has the shape [%s]; expected 1 to 4 dims of at least 1, and not too large",
                      name, shape.ToString().c_str());
  }
  if (top == 0) return shape;
  HP_ASSIGN_OR_RETURN(const Shape data, DummyShape(param, 0));
  if (shape[0] == data[0]) return shape;
  return LayerError(param, "top \"%s\" has the shape [%s]; expected [%lld] or [%lld, ...], as many rows as top \"%s\"",
                    name, shape.ToString().c_str(), static_cast<long long>(data[0]), static_cast<long long>(data[0]),
                    param.top(0).c_str());
}

const caffe::FillerParameter* DummyFiller(const caffe::LayerParameter& param, int top) {
  const caffe::DummyDataParameter& dummy = param.dummy_data_param();
  if (dummy.data_filler_size() == 0) return nullptr;
  return &dummy.data_filler(dummy.data_filler_size() == 1 ? 0 : top);
}

LayerType DummyDataType() {
  return {.name = "DummyData",
          .fields = {"dummy_data_param"},
          .bottoms = {0, 0},
          .tops = {1, kAnyNumber},
          .source = SourceKind::kDataset,
          .check = CheckDummyData,
          .output_shapes = RecordShapes,
          .batch_size = DummyBatchSize};
}

}  // namespace hp
