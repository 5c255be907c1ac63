#include "base/format.h"
#include "base/pending_file.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/progress.h"
#include "hp/convert.h"
#include "proto/caffe.pb.h"

#include <glog/logging.h>

#include <vector>

namespace hp {
namespace {

// Sums of images of one size. Doubles: a float holds no more than some 65,000 full-scale bytes exactly.
class MeanSum {
 public:
  Status Add(caffe::Datum* datum) {
    HP_RETURN_IF_ERROR(DecodeDatum(ImageColor::kAsStored, datum));
    const int64_t channels = datum->channels(), height = datum->height(), width = datum->width();
    const bool bytes = !datum->data().empty();
    const int64_t found = bytes ? static_cast<int64_t>(datum->data().size()) : datum->float_data_size();
    if (found == 0 || channels <= 0 || found % channels != 0 || height <= 0 || found / channels != height * width) {
      return DataLoss("has the shape %lld %lld %lld and %lld values", static_cast<long long>(channels),
                      static_cast<long long>(height), static_cast<long long>(width), static_cast<long long>(found));
    }
    if (count_ == 0) {
      channels_ = channels, height_ = height, width_ = width;
      sums_.resize(found);
    } else if (channels != channels_ || height != height_ || width != width_) {
      return InvalidArgument("has the shape %lld %lld %lld, expected %lld %lld %lld as the first record has",
                             static_cast<long long>(channels), static_cast<long long>(height),
                             static_cast<long long>(width), static_cast<long long>(channels_),
                             static_cast<long long>(height_), static_cast<long long>(width_));
    }
    for (int64_t i = 0; i < found; ++i) {
      sums_[i] += bytes ? static_cast<unsigned char>(datum->data()[i]) : static_cast<double>(datum->float_data(i));
    }
    ++count_;
    return OkStatus();
  }

  caffe::BlobProto Mean() const {
    caffe::BlobProto blob;
    blob.set_num(1);
    blob.set_channels(static_cast<int>(channels_));
    blob.set_height(static_cast<int>(height_));
    blob.set_width(static_cast<int>(width_));
    for (const double sum : sums_) blob.add_data(static_cast<float>(sum / static_cast<double>(count_)));
    return blob;
  }

  void LogChannels() const {
    LOG(INFO) << "Number of channels: " << channels_;
    const int64_t plane = height_ * width_;
    for (int64_t c = 0; c < channels_; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < plane; ++i) sum += sums_[c * plane + i];
      LOG(INFO) << "mean_value channel [" << c << "]: " << sum / static_cast<double>(count_ * plane);
    }
  }

 private:
  std::vector<double> sums_;
  int64_t channels_ = 0, height_ = 0, width_ = 0, count_ = 0;
};

}  // namespace

Status ComputeImageMean(const std::string& database, const std::string& backend, const std::string& mean_file) {
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(backend));
  HP_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(database, kind));
  Progress progress("Summing " + database, dataset->size());
  MeanSum sum;
  std::string bytes;
  caffe::Datum datum;
  for (int64_t record = 0; record < dataset->size(); ++record) {
    HP_RETURN_IF_ERROR(dataset->Read(record, &bytes));
    if (!datum.ParseFromString(bytes)) return DataLoss("%s is not a valid Datum", dataset->Describe(record).c_str());
    if (const Status status = sum.Add(&datum); !status.ok()) return status.Prepend(dataset->Describe(record));
    progress.Count(bytes.size());
  }
  sum.LogChannels();
  if (mean_file.empty()) return OkStatus();
  HP_RETURN_IF_ERROR(WriteWholeFile(mean_file, sum.Mean().SerializeAsString()));
  LOG(INFO) << "Wrote the mean of " << dataset->size() << " images to " << mean_file;
  return OkStatus();
}

}  // namespace hp
