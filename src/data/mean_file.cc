#include "base/input_file.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

#include <xxhash.h>

namespace hp {
namespace {

// New files have `shape`, old ones num, channels, height and width; a leading 1 is dropped.
Shape ShapeOf(const caffe::BlobProto& blob) {
  std::vector<int64_t> dims;
  if (blob.has_shape()) {
    dims.assign(blob.shape().dim().begin(), blob.shape().dim().end());
  } else {
    dims = {blob.num(), blob.channels(), blob.height(), blob.width()};
  }
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  return Shape(dims);
}

// Divides instead of multiplying: hostile dims could overflow a product.
bool HasValues(const Shape& shape, int64_t values) {
  for (const int64_t dim : shape.dims()) {
    if (dim <= 0 || values % dim != 0) return false;
    values /= dim;
  }
  return values == 1;
}

}  // namespace

StatusOr<MeanImage> ReadMeanFile(const std::string& path) {
  const StatusOr<std::string> bytes = ReadInputFile(path);
  if (!bytes.ok()) return bytes.status().Prepend("mean_file");
  caffe::BlobProto blob;
  if (!blob.ParseFromString(*bytes)) return DataLoss("mean_file \"%s\" is truncated or not a BlobProto", path.c_str());
  MeanImage mean;
  mean.shape = ShapeOf(blob);
  if (mean.shape.rank() != 3) {
    return DataLoss("mean_file \"%s\" has the shape %s: expected one image, C H W", path.c_str(),
                    mean.shape.ToString().c_str());
  }
  mean.data.assign(blob.data().begin(), blob.data().end());
  if (mean.data.empty()) mean.data.assign(blob.double_data().begin(), blob.double_data().end());
  if (!HasValues(mean.shape, static_cast<int64_t>(mean.data.size()))) {
    return DataLoss("mean_file \"%s\" has the shape %s and %zu values", path.c_str(), mean.shape.ToString().c_str(),
                    mean.data.size());
  }
  const uint64_t shape_hash =
      XXH3_64bits(mean.shape.dims().data(), mean.shape.dims().size() * sizeof(mean.shape.dims()[0]));
  mean.fingerprint = XXH3_64bits_withSeed(mean.data.data(), mean.data.size() * sizeof(float), shape_hash) | 1;
  return mean;
}

}  // namespace hp
