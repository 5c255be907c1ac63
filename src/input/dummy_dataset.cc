#include "input/dummy_dataset.h"

#include "base/block.h"
#include "base/format.h"
#include "layers/filler.h"
#include "layers/traits/fields.h"
#include "layers/traits/layer_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace hp {
namespace {

// Few enough that FillParam keeps to this thread: a reader thread has no team of its own.
constexpr int64_t kElementsAtATime = 4096;

}  // namespace

StatusOr<std::unique_ptr<Dataset>> DummyDataset::Open(const caffe::LayerParameter& layer,
                                                      std::map<int, std::vector<int64_t>> classes,
                                                      const DatasetOptions& options) {
  HP_RETURN_IF_ERROR(LayerTraits::Create(layer, LayerTypes::BuiltIn()).status());
  auto dataset = std::unique_ptr<DummyDataset>(new DummyDataset(layer, std::move(classes)));
  for (int top = 0; top < layer.top_size(); ++top) {
    HP_ASSIGN_OR_RETURN(const Shape shape, DummyShape(layer, top));
    if (ColumnsOf(shape) > kMostDatumFloats) {
      return InvalidArgument("layer \"%s\": rows of top \"%s\", [%s], are too large", layer.name().c_str(),
                             layer.top(top).c_str(), shape.ToString().c_str());
    }
    dataset->shapes_.push_back(shape);
  }
  for (const auto& [top, columns] : dataset->classes_) {
    if (top >= dataset->tops() || ColumnsOf(dataset->shapes_[top]) != 1) continue;
    float number = 0;
    HP_RETURN_IF_ERROR(dataset->FillRow(0, top, &number));
  }
  return Opened(std::unique_ptr<Dataset>(std::move(dataset)), options);
}

Status DummyDataset::FillRow(int64_t record, int top, float* out) const {
  const Shape& whole = shapes_[top];
  const std::string blob =
      Format("%s %s %lld", layer_.name().c_str(), layer_.top(top).c_str(), static_cast<long long>(record / whole[0]));
  Block block = Block::Rows(whole, record % whole[0], record % whole[0] + 1);
  const int64_t columns = block.end_col;
  for (int64_t column = 0; column < columns; column += kElementsAtATime) {
    block.begin_col = column;
    block.end_col = std::min(column + kElementsAtATime, columns);
    FillParam(DummyFiller(layer_, top), whole, block, /*seed=*/0, blob, out + column);
  }
  const auto classes = classes_.find(top);
  if (classes == classes_.end()) return OkStatus();
  for (const int64_t column : classes->second) {
    if (!(std::abs(out[column]) < static_cast<float>(std::numeric_limits<int>::max())))
      return InvalidArgument("layer \"%s\": its filler makes the label %g", layer_.name().c_str(), out[column]);
    out[column] = std::trunc(out[column]);
  }
  return OkStatus();
}

Status DummyDataset::ReadDatum(int64_t record, caffe::Datum* datum) {
  const Shape& data = shapes_[0];
  datum->Clear();
  datum->set_channels(static_cast<int>(data.dim(1)));
  datum->set_height(static_cast<int>(data.dim(2)));
  datum->set_width(static_cast<int>(data.dim(3)));
  datum->mutable_float_data()->Resize(static_cast<int>(ColumnsOf(data)), 0);
  return FillRow(record, 0, datum->mutable_float_data()->mutable_data());
}

Shape DummyDataset::top_shape(int top) const {
  if (top >= tops()) return {};
  return Shape(std::vector<int64_t>(shapes_[top].dims().begin() + 1, shapes_[top].dims().end()));
}

Status DummyDataset::ReadTop(int64_t record, int top, const caffe::Datum&, float* values) {
  if (top < tops()) return FillRow(record, top, values);
  *values = 0;
  return OkStatus();
}

}  // namespace hp
