#pragma once

#include "hp/status.h"

#include <string>
#include <vector>

namespace caffe {
class Datum;
}

namespace hp {

/// An image with 8 bits a channel and interleaved channels, as in OpenCV: row-major [H, W, C], C in the order B, G, R
/// (or B, G, R, alpha; or gray alone).
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<unsigned char> pixels;  ///< height * width * channels bytes
};

/// How many channels a decoded image has.
enum class ImageColor {
  kAsStored,  ///< as in the file: 1, 3 or 4
  kColor,     ///< 3; gray images are expanded
  kGray,      ///< 1; color images are converted
};

/// Pixels of a JPEG or PNG record, at most: damaged bytes that say more would cost gigabytes before anything is found.
constexpr int64_t kMaxImagePixels = int64_t{1} << 27;

/// Decodes JPEG, PNG and every other format of OpenCV's imgcodecs. Any thread, as all functions here.
/// @return kDataLoss: not an image, a damaged one, or one of more than kMaxImagePixels; kInvalidArgument: more than 8
/// bits a channel.
StatusOr<Image> DecodeImage(const std::string& bytes, ImageColor color);
/// Reads and decodes an image file and, if `height` and `width` are both > 0, resizes it (bilinear).
/// @return as DecodeImage, and kNotFound: no such file. The message names `path`.
StatusOr<Image> ReadImageFile(const std::string& path, ImageColor color, int height, int width);
/// Encodes an image. @param extension of the format, without a dot: "png", "jpg".
/// @return the bytes of a file; kInvalidArgument: OpenCV has no encoder for it.
StatusOr<std::string> EncodeImage(const Image& image, const std::string& extension);

/// Stores the image's raw bytes, planar [C, H, W], and its shape in `datum`; the label stays.
void ImageToDatum(const Image& image, caffe::Datum* datum);
/// Replaces the encoded image in `datum` by its raw bytes, planar [C, H, W]; a Datum that is not encoded stays as it
/// is. Errors as DecodeImage's.
Status DecodeDatum(ImageColor color, caffe::Datum* datum);

}  // namespace hp
