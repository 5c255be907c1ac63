#pragma once

#include "base/shape.h"
#include "data/dataset.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hp {

/// The records of a DummyData layer, made by its fillers: random ones differ from record to record and are the same in
/// each job, whatever its seed or table. A record is a row of blobs of the layer's shapes, one of each for each batch.
/// There are kRecords of them. Any thread.
class DummyDataset : public DatumDataset {
 public:
  static constexpr int64_t kRecords = int64_t{1} << 40;  ///< more than a training visits

  /// @param classes by top, which numbers of a row are classes, some perhaps twice: these are cut to integers, as
  /// Caffe's losses cut theirs.
  /// @return kInvalidArgument: the layer's shapes or fillers are wrong, as its traits say.
  static StatusOr<std::unique_ptr<Dataset>> Open(const caffe::LayerParameter& layer,
                                                 std::map<int, std::vector<int64_t>> classes,
                                                 const DatasetOptions& options);

  int64_t size() const override { return kRecords; }
  std::string_view key(int64_t) const override { return ""; }
  Status ReadDatum(int64_t record, caffe::Datum* datum) override;
  int tops() const override { return static_cast<int>(shapes_.size()); }
  Shape top_shape(int top) const override;
  Shape first_shape(const Shape&) const override { return top_shape(0); }
  Status ReadTop(int64_t record, int top, const caffe::Datum& datum, float* values) override;
  Status CheckUnchanged() override { return OkStatus(); }

 private:
  DummyDataset(const caffe::LayerParameter& layer, std::map<int, std::vector<int64_t>> classes)
      : DatumDataset(layer.name()), layer_(layer), classes_(std::move(classes)) {}
  Status FillRow(int64_t record, int top, float* out) const;

  const caffe::LayerParameter layer_;
  const std::map<int, std::vector<int64_t>> classes_;
  std::vector<Shape> shapes_;  ///< [batch, ...] by top
};

}  // namespace hp
