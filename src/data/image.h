#pragma once

#include "hp/status.h"

#include <string>
#include <vector>

namespace caffe {
class Datum;
}

namespace hp {

/// An image of bytes with interleaved channels, as OpenCV holds it: row-major [H, W, C], C in the order B, G, R.
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<unsigned char> pixels;
};

enum class ImageColor {
  kAsStored,  ///< 1, 3 or 4 channels
  kColor,     ///< 3
  kGray,      ///< 1
};

/// Decodes JPEG, PNG and whatever else OpenCV's imgcodecs knows. Any thread.
/// @return kDataLoss: no image, or a damaged one; kInvalidArgument: pixels are not bytes.
StatusOr<Image> DecodeImage(const std::string& bytes, ImageColor color);
/// The same for a file, resized to [height, width] where both are > 0. @return also kNotFound. Names `path`.
StatusOr<Image> ReadImageFile(const std::string& path, ImageColor color, int height, int width);
/// @param extension of the wanted format, without a dot: "png", "jpg".
StatusOr<std::string> EncodeImage(const Image& image, const std::string& extension);

/// A Datum with the image's raw bytes, [C, H, W]; keeps the label.
void ImageToDatum(const Image& image, caffe::Datum* datum);
/// Replaces an encoded image by its raw bytes; others stay as they are.
Status DecodeDatum(ImageColor color, caffe::Datum* datum);

}  // namespace hp
