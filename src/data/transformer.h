#pragma once

#include "base/shape.h"
#include "data/image.h"
#include "data/plain_jpeg.h"
#include "hp/status.h"
#include "tensor/raw_images.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caffe {
class Datum;
class LayerParameter;
class TransformationParameter;
}  // namespace caffe

namespace hp {

/// A mean image as compute_image_mean writes it, in memory.
struct MeanImage {
  Shape shape;              ///< [C, H, W]; rank 0: none
  std::vector<float> data;  ///< shape.count() values, dense
  /// Hash of shape and contents; 0: no image. Nodes compare it at the handshake instead of the path.
  uint64_t fingerprint = 0;
};
/// Reads a binary BlobProto of shape [C, H, W] or [1, C, H, W].
/// @return kNotFound: it cannot be opened; kDataLoss: not a BlobProto, or its sizes contradict each other. Both name
/// `path`.
StatusOr<MeanImage> ReadMeanFile(const std::string& path);

/// How Transformer makes a float image of a record; Caffe's TransformationParameter.
struct TransformOptions {
  float scale = 1;                               ///< factor after the mean is subtracted
  bool mirror = false;                           ///< flip half of the images from left to right
  int64_t crop_size = 0;                         ///< pixels, of a square; 0: whole images
  MeanImage mean;                                ///< subtracted element by element; has the size of whole images
  std::vector<float> mean_value;                 ///< subtracted: none, one, or one for each channel
  bool force_color = false, force_gray = false;  ///< of encoded images: 3 channels, or 1; else as stored
  int resize_height = 0, resize_width = 0;       ///< pixels, of encoded images, before all else; 0: they stay
  std::string size_advice;                       ///< follows a message about records of different sizes
  std::string channels_advice;                   ///< follows one about records of other channels
};
/// The options of a layer that reads records: its transform_param, data_param { force_encoded_color }, and
/// new_height, new_width and is_color of an ImageData layer. Reads the mean file.
/// @return kInvalidArgument: fields that contradict each other (both mean_file and mean_value), or a size that no image
/// can have; errors of ReadMeanFile. All name the layer.
StatusOr<TransformOptions> TransformOptionsOf(const caffe::LayerParameter& layer);
/// Its first half: whether the fields are sound, without a look at any file.
Status CheckTransformFields(const caffe::LayerParameter& layer);

/// Makes a float image of a Datum: (pixel - mean) * scale, cropped and mirrored, by the rules of Caffe's
/// DataTransformer:
///  - crop: at a random place in training, in the centre in tests;
///  - mirror: at random (one in two) in training and in tests;
///  - the mean image has the size of the whole image and is cropped with it;
///  - channels of encoded images are in OpenCV's order (B, G, R).
/// Random choices depend on (seed, layer, sample) alone, so every node makes the same image of the same sample.
/// Immutable; any thread, several at once.
class Transformer {
 public:
  /// A device decodes whole images: of larger ones the host, which leaves rows and columns out, decodes less.
  static constexpr int64_t kMostCrops = 8;

  /// @param train false in a test: crops are taken in the centre. @param seed the job's. @param layer name of the
  /// layer that reads them.
  /// @param first any record of the dataset: it decides the output shape, as in Caffe.
  /// @param where names that record in messages (Dataset::Describe).
  /// @return kInvalidArgument: the options do not fit the record (names both); kDataLoss: it cannot be decoded.
  static StatusOr<std::unique_ptr<Transformer>> Create(TransformOptions options, bool train, uint64_t seed,
                                                       std::string_view layer, const caffe::Datum& first,
                                                       const std::string& where);

  /// [C, H, W] of every output; with crop_size, H = W = crop_size.
  const Shape& output_shape() const { return output_shape_; }

  /// Transforms one record. Images may differ in size only if they are cropped and there is no mean image.
  /// @param sample counted from the start of training (or of the test); selects the random choices.
  /// @param out [C, H, W] float32, dense, overwritten.
  /// @return kDataLoss: it cannot be decoded, or its fields contradict each other; kInvalidArgument: another shape than
  /// the first record's (both named). Messages do not name the record: the caller puts Dataset::Describe in front.
  Status Transform(const caffe::Datum& datum, uint64_t sample, float* out) const;
  /// Whether the record has bytes, encoded or not; else it has floats.
  static bool HasBytes(const caffe::Datum& datum);
  /// The part of Transform that needs the record, for one with bytes (CHECK): decodes and crops it. What is left to be
  /// done is rule()'s. @param out output_shape().count() bytes, overwritten. @return as Transform.
  Status TakeRaw(const caffe::Datum& datum, uint64_t sample, RawImage* image, uint8_t* out) const;
  /// Whether a record can be left to a device that decodes JPEGs, which follows from the record and the options alone:
  /// a plain JPEG (PlainJpegSize) whose colors stay as they are and whose size stays and is that of an image here, with
  /// no more bytes than the output has values, and with at most kMostCrops times the pixels of a crop.
  bool GoesEncoded(const caffe::Datum& datum) const { return EncodedSize(datum).has_value(); }
  /// TakeRaw for such a record, without decoding it. @return false: it is none, and nothing was written.
  bool TakeEncoded(const caffe::Datum& datum, uint64_t sample, RawImage* image, uint8_t* out) const;
  /// Bytes of the largest image that TakeEncoded leaves to a device, decoded and whole, [H, W, 3]; 0: it takes none.
  int64_t whole_bytes() const;
  /// How what TakeRaw leaves becomes what Transform makes. Points into the transformer.
  RawImageRule rule() const;
  /// What Transform would return. Decodes an encoded image, and makes nothing of it.
  Status Check(const caffe::Datum& datum) const;

 private:
  struct Source;
  /// Where the crop of a sample lies, and whether it is mirrored.
  struct Choice;
  Transformer(TransformOptions options, bool train, uint64_t stream_key);
  /// @param height, width of the whole image; no smaller than the crop.
  Choice Choose(uint64_t sample, int64_t height, int64_t width) const;
  /// @param choose what of an encoded image is needed.
  Status View(const caffe::Datum& datum, const ChoosePart& choose, Source* source) const;
  Status CheckShape(const Source& source) const;
  /// Whether whole images may differ in size; else they have whole_shape().
  bool free_size() const { return options_.crop_size > 0 && options_.mean.shape.rank() == 0; }
  const Shape& whole_shape() const { return options_.mean.shape.rank() != 0 ? options_.mean.shape : output_shape_; }
  bool Fits(int64_t height, int64_t width) const;
  /// Of the whole image of a record that GoesEncoded.
  std::optional<ImageSize> EncodedSize(const caffe::Datum& datum) const;
  bool TakesEncoded() const;
  /// The record's pixels, of an encoded one those of the sample's crop.
  Status ViewOf(const caffe::Datum& datum, uint64_t sample, Source* source) const;
  void Fill(const Source& source, const Choice& choice, float* out) const;

  const TransformOptions options_;
  const bool train_;
  const uint64_t stream_key_;
  Shape output_shape_;
  std::vector<float> channel_means_;  // of each; without a mean image
};

}  // namespace hp
