#pragma once

#include "layers/layer.h"

#include <vector>

namespace caffe {
class DataParameter;
class TransformationParameter;
}  // namespace caffe

namespace hp {

/// The source of a net that trains from a database: it holds what the reader needs, validated, and makes no op.
/// Top 0 is the images after the transform, top 1 (where there is one) the labels, [rows].
class DataLayer : public Layer {
 public:
  explicit DataLayer(const caffe::LayerParameter& param) : Layer(param) {}

  const caffe::DataParameter& data() const;
  const caffe::TransformationParameter& transform() const;
  int64_t batch_size() const;  ///< as the prototxt gives it: the global batch, or a replica's with `batch: PER_REPLICA`
  bool has_labels() const;

  /// @param in one shape, [rows, channels, height, width] of records as the database holds them.
  /// @return the tops' shapes: cropped images and, where they are wanted, labels. kInvalidArgument: crop_size or
  /// mean_value does not fit the records.
  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override;
  /// No op: the reader fills the tops.
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext&, const std::vector<TensorDesc>&) const override {
    return std::unique_ptr<Op>();
  }
};

}  // namespace hp
