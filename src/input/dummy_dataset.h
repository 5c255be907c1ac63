#pragma once

#include "base/shape.h"
#include "data/dataset.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

/// The records of a DummyData layer, made by its fillers: random ones differ from record to record and are the same in
/// each job, whatever its seed or table. A record is a row of a blob of the layer's shape, one blob for each batch; a
/// label is the filler's value, cut to an integer as Caffe's losses cut theirs. There are kRecords of them. Any thread.
class DummyDataset : public DatumDataset {
 public:
  static constexpr int64_t kRecords = int64_t{1} << 40;  ///< more than a training visits

  /// @return kInvalidArgument: the layer's shapes or fillers are wrong, as its traits say.
  static StatusOr<std::unique_ptr<Dataset>> Open(const caffe::LayerParameter& layer, const DatasetOptions& options);

  int64_t size() const override { return kRecords; }
  std::string_view key(int64_t) const override { return ""; }
  Status ReadDatum(int64_t record, caffe::Datum* datum) override;
  Shape label_shape() const override;
  Status ReadLabels(int64_t record, float* labels) override;
  Status CheckUnchanged() override { return OkStatus(); }

 private:
  explicit DummyDataset(const caffe::LayerParameter& layer) : DatumDataset(layer.name()), layer_(layer) {}
  void FillRow(int top, const Shape& whole, int64_t record, float* out) const;

  const caffe::LayerParameter layer_;
  Shape data_, label_;  ///< [batch, ...]; label_ of rank 0: none
};

}  // namespace hp
