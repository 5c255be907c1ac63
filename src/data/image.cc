#include "data/image.h"

#include "data/image_header.h"
#include "proto/caffe.pb.h"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace hp {
namespace {

int ReadFlag(ImageColor color) {
  if (color == ImageColor::kColor) return cv::IMREAD_COLOR;
  return color == ImageColor::kGray ? cv::IMREAD_GRAYSCALE : cv::IMREAD_UNCHANGED;
}

StatusOr<Image> FromMat(const cv::Mat& mat) {
  if (mat.empty()) return DataLoss("cannot decode the image");
  if (mat.depth() != CV_8U) return InvalidArgument("the image has more than 8 bits per channel");
  const cv::Mat dense = mat.isContinuous() ? mat : mat.clone();
  Image image{dense.rows, dense.cols, dense.channels(), {}};
  image.pixels.assign(dense.data, dense.data + dense.total() * dense.elemSize());
  return image;
}

cv::Mat ToMat(const Image& image) {
  return cv::Mat(image.height, image.width, CV_8UC(image.channels), const_cast<unsigned char*>(image.pixels.data()));
}

}  // namespace

// OpenCV throws for some damaged files and returns nothing for others.
StatusOr<Image> DecodeImage(const std::string& bytes, ImageColor color) try {
  if (bytes.empty()) return DataLoss("the encoded image is empty");
  if (const auto pixels = DeclaredPixels(bytes); pixels && *pixels > kMaxImagePixels) {
    return DataLoss("the image has %lld pixels by its header, %zu bytes; at most %lld are decoded",
                    static_cast<long long>(*pixels), bytes.size(), static_cast<long long>(kMaxImagePixels));
  }
  const cv::Mat encoded(1, static_cast<int>(bytes.size()), CV_8U, const_cast<char*>(bytes.data()));
  return FromMat(cv::imdecode(encoded, ReadFlag(color)));
} catch (const cv::Exception& error) {
  return DataLoss("cannot decode the image: %s", error.err.c_str());
}

StatusOr<Image> ReadImageFile(const std::string& path, ImageColor color, int height, int width) try {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return NotFound("%s: %s", path.c_str(), std::strerror(errno));
  cv::Mat mat = cv::imread(path, ReadFlag(color));
  if (!mat.empty() && height > 0 && width > 0) {
    cv::Mat resized;
    cv::resize(mat, resized, cv::Size(width, height));
    mat = resized;
  }
  auto image = FromMat(mat);
  if (!image.ok()) return image.status().Prepend(path);
  return image;
} catch (const cv::Exception& error) {
  return DataLoss("%s: cannot decode the image: %s", path.c_str(), error.err.c_str());
}

StatusOr<std::string> EncodeImage(const Image& image, const std::string& extension) try {
  std::vector<unsigned char> bytes;
  if (!cv::imencode("." + extension, ToMat(image), bytes)) {
    return InvalidArgument("no encoder for \"%s\" images", extension.c_str());
  }
  return std::string(bytes.begin(), bytes.end());
} catch (const cv::Exception& error) {
  return InvalidArgument("no encoder for \"%s\" images: %s", extension.c_str(), error.err.c_str());
}

void ImageToDatum(const Image& image, caffe::Datum* datum) {
  datum->set_channels(image.channels);
  datum->set_height(image.height);
  datum->set_width(image.width);
  datum->clear_float_data();
  datum->set_encoded(false);
  std::string* data = datum->mutable_data();
  data->resize(image.pixels.size());
  const size_t plane = static_cast<size_t>(image.height) * image.width;
  for (size_t i = 0; i < plane; ++i) {
    for (int c = 0; c < image.channels; ++c) {
      (*data)[c * plane + i] = static_cast<char>(image.pixels[i * image.channels + c]);
    }
  }
}

Status DecodeDatum(ImageColor color, caffe::Datum* datum) {
  if (!datum->encoded()) return OkStatus();
  HP_ASSIGN_OR_RETURN(const Image image, DecodeImage(datum->data(), color));
  ImageToDatum(image, datum);
  return OkStatus();
}

}  // namespace hp
