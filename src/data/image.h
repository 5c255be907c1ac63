#pragma once

#include "hp/status.h"

#include <functional>
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

/// Some rows and columns of an image, in pixels.
struct ImagePart {
  int top = 0, left = 0, height = 0, width = 0;
};

/// What was decoded of an image.
struct DecodedPart {
  Image image;
  int top = 0, left = 0;      ///< where its first pixel lies in the whole
  int height = 0, width = 0;  ///< of the whole
};

/// Says which part is needed of an image of that size: within it, and not empty.
using ChoosePart = std::function<ImagePart(int height, int width)>;

/// How many channels a decoded image has, and whether it is turned as its EXIF orientation says: as OpenCV does for
/// IMREAD_UNCHANGED, IMREAD_COLOR and IMREAD_GRAYSCALE, to the pixel.
enum class ImageColor {
  kAsStored,  ///< as in the file: 1, 3 or 4; not turned
  kColor,     ///< 3; gray images are expanded; upright
  kGray,      ///< 1; color images are converted; upright
};

/// Pixels of a JPEG or PNG record, at most: damaged bytes that say more would cost gigabytes before anything is found.
constexpr int64_t kMaxImagePixels = int64_t{1} << 27;

/// Decodes JPEG and PNG. Any thread, as all functions here. A JPEG that ends too early, or is damaged in a way that
/// libjpeg only warns of, is decoded as far as it goes, and the rest is gray or blurred; a PNG never is.
/// @return kDataLoss: not a JPEG or PNG (another well-known format is named), a damaged one, in the words of libjpeg or
/// libpng, or one of more than kMaxImagePixels, found before memory for them is taken; kInvalidArgument: kAsStored, and
/// a PNG has 16 bits a channel.
StatusOr<Image> DecodeImage(const std::string& bytes, ImageColor color);
/// At least the part that `choose` names: a JPEG that is not turned is decoded down to its last row, and where libjpeg
/// can leave rows and columns out, no more of them than their neighbours' smoothing needs; all else is decoded whole.
/// The pixels are DecodeImage's. Errors, too, but for those in bytes behind the part's last row.
StatusOr<DecodedPart> DecodeImagePart(const std::string& bytes, ImageColor color, const ChoosePart& choose);
/// The image with another size, as Caffe's tools resize it (OpenCV, bilinear). @param height, width > 0; no more pixels
/// than kMaxImagePixels. @return kInvalidArgument: OpenCV refuses.
StatusOr<Image> ResizeImage(Image image, int height, int width);
/// Reads and decodes an image file and, if `height` and `width` are both > 0, resizes it (bilinear).
/// @return as DecodeImage; kNotFound: no such file; kInvalidArgument: no regular file, or it cannot be read or resized.
/// The message names `path`.
StatusOr<Image> ReadImageFile(const std::string& path, ImageColor color, int height, int width);
/// Encodes an image of 1, 3 or 4 channels: the bytes that OpenCV would write by default. @param extension of the
/// format, without a dot: "png", "jpg" or "jpeg" (quality 95).
/// @return the bytes of a file; kInvalidArgument: another extension, or what the format cannot hold.
StatusOr<std::string> EncodeImage(const Image& image, const std::string& extension);
/// @return kInvalidArgument: EncodeImage has no encoder for this extension.
Status CheckEncoder(const std::string& extension);

/// Stores the image's raw bytes, planar [C, H, W], and its shape in `datum`; the label stays.
void ImageToDatum(const Image& image, caffe::Datum* datum);
/// Replaces the encoded image in `datum` by its raw bytes, planar [C, H, W]; a Datum that is not encoded stays as it
/// is. Errors as DecodeImage's.
Status DecodeDatum(ImageColor color, caffe::Datum* datum);

}  // namespace hp
