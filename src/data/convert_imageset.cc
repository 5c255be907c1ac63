#include "base/format.h"
#include "data/db_writer.h"
#include "data/image.h"
#include "data/image_list.h"
#include "data/order.h"
#include "data/progress.h"
#include "hp/convert.h"
#include "proto/caffe.pb.h"

#include <glog/logging.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace hp {
namespace {

// It may be a pipe.
StatusOr<std::vector<ListedImage>> ReadList(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("list of images %s: %s", path.c_str(), std::strerror(errno));
  return ParseImageList(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

std::string Extension(const std::string& name) {
  const size_t dot = name.rfind('.');
  std::string extension = dot == std::string::npos ? "" : name.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == "jpeg" ? "jpg" : extension;
}

class ImageSetConverter {
 public:
  explicit ImageSetConverter(const ImageSetOptions& options) : options_(options) {}

  // An encoded image goes in as it is when that is what was asked for; else it is encoded anew.
  Status MakeDatum(const ListedImage& entry, caffe::Datum* datum) const {
    const std::string path = options_.root + entry.name;
    const ImageColor color = options_.gray ? ImageColor::kGray : ImageColor::kColor;
    const bool encoded = options_.encoded || !options_.encode_type.empty();
    const std::string type =
        options_.encode_type.empty() ? Extension(entry.name) : Extension("." + options_.encode_type);
    const bool resize = options_.resize_height > 0 && options_.resize_width > 0;
    HP_ASSIGN_OR_RETURN(const Image image, ReadImageFile(path, color, options_.resize_height, options_.resize_width));
    datum->Clear();
    datum->set_label(entry.label);
    if (!encoded) {
      ImageToDatum(image, datum);
      return OkStatus();
    }
    datum->set_encoded(true);
    if (!resize && type == Extension(entry.name) && !options_.gray) return ReadWhole(path, datum->mutable_data());
    auto bytes = EncodeImage(image, type);
    if (!bytes.ok()) return bytes.status().Prepend(path);
    datum->set_data(*std::move(bytes));
    datum->set_channels(image.channels);
    datum->set_height(image.height);
    datum->set_width(image.width);
    return OkStatus();
  }

  Status CheckSize(const ListedImage& entry, const caffe::Datum& datum) {
    if (!options_.check_size) return OkStatus();
    if (first_size_ == 0) first_size_ = datum.data().size();
    if (datum.data().size() == first_size_) return OkStatus();
    return InvalidArgument("%s:%d: %s has %zu bytes (%d x %d x %d), expected %zu, the size of the first image",
                           options_.list.c_str(), entry.line, entry.name.c_str(), datum.data().size(), datum.channels(),
                           datum.height(), datum.width(), first_size_);
  }

 private:
  static Status ReadWhole(const std::string& path, std::string* bytes) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return NotFound("%s: %s", path.c_str(), std::strerror(errno));
    bytes->assign((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return OkStatus();
  }

  const ImageSetOptions& options_;
  size_t first_size_ = 0;
};

Status CheckOptions(const ImageSetOptions& options) {
  if ((options.resize_width > 0) != (options.resize_height > 0)) {
    LOG(WARNING) << "resize_width " << options.resize_width << " and resize_height " << options.resize_height
                 << ": images are not resized, as in Caffe, unless both are above 0";
  }
  if (!options.encode_type.empty())
    HP_RETURN_IF_ERROR(CheckEncoder(Extension("." + options.encode_type)).Prepend("encode_type"));
  if (options.check_size && (options.encoded || !options.encode_type.empty())) {
    return InvalidArgument("check_size compares raw images and cannot be combined with encoded or encode_type");
  }
  return OkStatus();
}

}  // namespace

Status ConvertImageSet(const ImageSetOptions& options) {
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(options.backend));
  HP_RETURN_IF_ERROR(CheckOptions(options));
  HP_ASSIGN_OR_RETURN(const std::vector<ListedImage> entries, ReadList(options.list));
  LOG(INFO) << "A total of " << entries.size() << " images.";
  if (options.shuffle) LOG(INFO) << "Shuffling with seed " << options.seed;
  const RecordOrder order(static_cast<int64_t>(entries.size()), options.shuffle, options.seed);
  HP_ASSIGN_OR_RETURN(const auto writer, DbWriter::Create(options.database, kind));
  ImageSetConverter converter(options);
  Progress progress("Converting " + options.database, static_cast<int64_t>(entries.size()));
  Status first_failure;
  int64_t failures = 0;
  caffe::Datum datum;
  for (int64_t i = 0; i < order.size(); ++i) {
    const ListedImage& entry = entries[order.Record(i)];
    if (Status status = converter.MakeDatum(entry, &datum); !status.ok()) {
      status = status.Prepend(Format("%s:%d", options.list.c_str(), entry.line));
      LOG(WARNING) << "skipped: " << status.message();
      if (failures++ == 0) first_failure = status;
      continue;
    }
    HP_RETURN_IF_ERROR(converter.CheckSize(entry, datum));
    HP_RETURN_IF_ERROR(
        writer->Put(Format("%08lld_%s", static_cast<long long>(i), entry.name.c_str()), datum.SerializeAsString()));
    progress.Count(datum.data().size());
  }
  if (writer->count() == 0) return first_failure.Prepend("no image can be read; first failure");
  HP_RETURN_IF_ERROR(writer->Finish());
  LOG(INFO) << "Wrote " << writer->count() << " records to " << writer->path();
  LOG_IF(WARNING, failures > 0) << failures << " of " << entries.size() << " images could not be read and were skipped";
  return OkStatus();
}

}  // namespace hp
