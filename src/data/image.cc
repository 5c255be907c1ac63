#include "data/image.h"

#include "base/input_file.h"
#include "data/image_header.h"
#include "data/image_jpeg.h"
#include "data/image_png.h"
#include "proto/caffe.pb.h"

#include <opencv2/imgproc.hpp>

namespace hp {

StatusOr<Image> ResizeImage(Image image, int height, int width) try {
  const cv::Mat from(image.height, image.width, CV_8UC(image.channels), image.pixels.data());
  cv::Mat to;
  cv::resize(from, to, cv::Size(width, height));
  return Image{height, width, image.channels, {to.data, to.data + to.total() * to.elemSize()}};
} catch (const cv::Exception& error) {
  return InvalidArgument("cannot resize the image to %d x %d: %s", width, height, error.err.c_str());
}

StatusOr<Image> DecodeImage(const std::string& bytes, ImageColor color) {
  const ChoosePart all = [](int height, int width) { return ImagePart{0, 0, height, width}; };
  HP_ASSIGN_OR_RETURN(DecodedPart part, DecodeImagePart(bytes, color, all));
  return std::move(part.image);
}

StatusOr<DecodedPart> DecodeImagePart(const std::string& bytes, ImageColor color, const ChoosePart& choose) {
  if (bytes.empty()) return DataLoss("the encoded image is empty");
  if (const auto pixels = DeclaredPixels(bytes)) HP_RETURN_IF_ERROR(CheckDeclaredPixels(*pixels, bytes.size()));
  if (IsJpeg(bytes)) return DecodeJpeg(bytes, color, choose);
  if (IsPng(bytes)) {
    HP_ASSIGN_OR_RETURN(Image image, DecodePng(bytes, color));
    const int height = image.height, width = image.width;
    return DecodedPart{std::move(image), 0, 0, height, width};
  }
  const std::string format(OtherImageFormat(bytes));
  if (format.empty()) return DataLoss("cannot decode the image: not a JPEG or PNG image");
  return DataLoss(
      "cannot decode the image: it is a %s image; expected JPEG or PNG (convert it, e.g. with ImageMagick's mogrify)",
      format.c_str());
}

StatusOr<Image> ReadImageFile(const std::string& path, ImageColor color, int height, int width) {
  HP_ASSIGN_OR_RETURN(const std::string bytes, ReadInputFile(path));
  auto image = DecodeImage(bytes, color);
  if (image.ok() && height > 0 && width > 0) image = ResizeImage(*std::move(image), height, width);
  if (!image.ok()) return image.status().Prepend(path);
  return image;
}

StatusOr<std::string> EncodeImage(const Image& image, const std::string& extension) {
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) {
    return InvalidArgument("no encoder for images of %d channels; expected 1, 3 or 4", image.channels);
  }
  HP_RETURN_IF_ERROR(CheckEncoder(extension));
  return extension == "png" ? EncodePng(image) : EncodeJpeg(image);
}

Status CheckEncoder(const std::string& extension) {
  if (extension == "jpg" || extension == "jpeg" || extension == "png") return OkStatus();
  return InvalidArgument("no encoder for \"%s\" images; there are \"jpg\", \"jpeg\" and \"png\"", extension.c_str());
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
