#include "input/dummy_dataset.h"

#include "base/block.h"
#include "base/format.h"
#include "layers/filler.h"
#include "layers/traits/fields.h"
#include "layers/traits/layer_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hp {
namespace {

// Few enough that FillParam keeps to this thread: a reader thread has no team of its own.
constexpr int64_t kElementsAtATime = 4096;

}  // namespace

StatusOr<std::unique_ptr<Dataset>> DummyDataset::Open(const caffe::LayerParameter& layer,
                                                      const DatasetOptions& options) {
  HP_RETURN_IF_ERROR(LayerTraits::Create(layer, LayerTypes::BuiltIn()).status());
  auto dataset = std::unique_ptr<DummyDataset>(new DummyDataset(layer));
  HP_ASSIGN_OR_RETURN(dataset->data_, DummyShape(layer, 0));
  if (ColumnsOf(dataset->data_) > kMostDatumFloats) {
    return InvalidArgument("layer \"%s\": rows of [%s] are too large", layer.name().c_str(),
                           dataset->data_.ToString().c_str());
  }
  if (layer.top_size() > 1) {
    HP_ASSIGN_OR_RETURN(dataset->label_, DummyShape(layer, 1));
    if (ColumnsOf(dataset->label_) > kMostDatumFloats) {
      return InvalidArgument("layer \"%s\": labels of [%s] are too large", layer.name().c_str(),
                             dataset->label_.ToString().c_str());
    }
  }
  return Opened(std::unique_ptr<Dataset>(std::move(dataset)), options);
}

void DummyDataset::FillRow(int top, const Shape& whole, int64_t record, float* out) const {
  const std::string blob =
      Format("%s %s %lld", layer_.name().c_str(), layer_.top(top).c_str(), static_cast<long long>(record / whole[0]));
  Block block = Block::Rows(whole, record % whole[0], record % whole[0] + 1);
  const int64_t columns = block.end_col;
  for (int64_t column = 0; column < columns; column += kElementsAtATime) {
    block.begin_col = column;
    block.end_col = std::min(column + kElementsAtATime, columns);
    FillParam(DummyFiller(layer_, top), whole, block, /*seed=*/0, blob, out + column);
  }
}

Status DummyDataset::ReadDatum(int64_t record, caffe::Datum* datum) {
  datum->Clear();
  datum->set_channels(static_cast<int>(data_.dim(1)));
  datum->set_height(static_cast<int>(data_.dim(2)));
  datum->set_width(static_cast<int>(data_.dim(3)));
  datum->mutable_float_data()->Resize(static_cast<int>(ColumnsOf(data_)), 0);
  FillRow(0, data_, record, datum->mutable_float_data()->mutable_data());
  if (label_.rank() == 0 || ColumnsOf(label_) > 1) return OkStatus();
  float label = 0;
  HP_RETURN_IF_ERROR(ReadLabels(record, &label));
  datum->set_label(static_cast<int>(label));
  return OkStatus();
}

Shape DummyDataset::label_shape() const {
  if (label_.rank() == 0 || ColumnsOf(label_) == 1) return {};
  return Shape(std::vector<int64_t>(label_.dims().begin() + 1, label_.dims().end()));
}

Status DummyDataset::ReadLabels(int64_t record, float* labels) {
  FillRow(1, label_, record, labels);
  for (float* label = labels; label < labels + ColumnsOf(label_); ++label) {
    if (!(std::abs(*label) < static_cast<float>(std::numeric_limits<int>::max())))
      return InvalidArgument("layer \"%s\": its filler makes the label %g", layer_.name().c_str(), *label);
    *label = std::trunc(*label);
  }
  return OkStatus();
}

}  // namespace hp
