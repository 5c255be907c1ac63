#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace caffe {
class Datum;
class LayerParameter;
class TransformationParameter;
}  // namespace caffe

namespace hp {

/// A mean image as compute_image_mean writes it.
struct MeanImage {
  Shape shape;  ///< [C, H, W]; rank 0: none
  std::vector<float> data;
  /// Of shape and contents; 0: none. Stands in for `mean_file` in the handshake.
  uint64_t fingerprint = 0;
};
/// Reads a BlobProto of [C, H, W] or [1, C, H, W], binary.
/// @return kNotFound, kDataLoss (not a BlobProto, or its sizes don't fit together); both name `path`.
StatusOr<MeanImage> ReadMeanFile(const std::string& path);

struct TransformOptions {
  float scale = 1;
  bool mirror = false;
  int64_t crop_size = 0;  ///< 0: whole images
  MeanImage mean;
  std::vector<float> mean_value;                 ///< none, one, or one for each channel
  bool force_color = false, force_gray = false;  ///< for encoded images
};
/// The transform of a Data layer: transform_param, with what old files say in data_param (scale, mean_file, crop_size,
/// mirror, force_encoded_color). Reads the mean file.
/// @return kInvalidArgument: mean_file and mean_value, or force_color and force_gray, at once.
StatusOr<TransformOptions> TransformOptionsOf(const caffe::LayerParameter& layer);

/// Makes a float image of a Datum: (pixel - mean) * scale, cropped and mirrored, as Caffe's DataTransformer does:
///  - crop: at random in training, the centre in tests;
///  - mirror: at random (one in two) in training *and* in tests, as Caffe does;
///  - the mean image has the size of the whole image and is cropped with it;
///  - channels of encoded images are in OpenCV's order (B, G, R).
/// What is random depends on (seed, layer, sample) alone: any node cuts the same crop for the same sample.
/// Immutable; any thread.
class Transformer {
 public:
  /// @param first any record of the dataset: it decides the output shape, as in Caffe.
  /// @param where names that record in messages (Dataset::Describe).
  /// @return kInvalidArgument: the options don't fit the record (names both).
  static StatusOr<std::unique_ptr<Transformer>> Create(TransformOptions options, bool train, uint64_t seed,
                                                       std::string_view layer, const caffe::Datum& first,
                                                       const std::string& where);

  /// [C, H, W] of every output: with crop_size, H = W = crop_size.
  const Shape& output_shape() const { return output_shape_; }

  /// Transforms one record. Images may differ in size only where they are cropped and no mean image is used.
  /// @param sample counted from the start of training (of the test).
  /// @param out [C, H, W] floats, dense.
  /// @return kDataLoss: can't be decoded, or its fields contradict each other; kInvalidArgument: another shape than the
  /// first record's (both named). Messages don't name the record: the caller knows it.
  Status Transform(const caffe::Datum& datum, uint64_t sample, float* out) const;

 private:
  struct Source;
  Transformer(TransformOptions options, bool train, uint64_t stream_key);
  Status View(const caffe::Datum& datum, Source* source) const;
  Status CheckShape(const Source& source) const;
  void Fill(const Source& source, uint64_t sample, float* out) const;

  const TransformOptions options_;
  const bool train_;
  const uint64_t stream_key_;
  Shape output_shape_;
};

}  // namespace hp
