#include "proto/infogain_matrix.h"

#include "base/format.h"
#include "base/input_file.h"
#include "proto/parse.h"
#include "proto/place.h"

#include <cmath>
#include <cstdint>
#include <string>

namespace hp {
namespace {

/// The numbers that a blob's shape says it has; -1: it says none. New blobs have `shape`, old ones four numbers.
double CountByShape(const caffe::BlobProto& blob) {
  double count = 1;
  if (blob.has_shape()) {
    for (const int64_t dim : blob.shape().dim()) count *= static_cast<double>(dim);
    return count;
  }
  if (!blob.has_num() && !blob.has_channels() && !blob.has_height() && !blob.has_width()) return -1;
  for (const int dim : {blob.num(), blob.channels(), blob.height(), blob.width()}) count *= dim;
  return count;
}

/// Brings a matrix into the one form that is compared and computed with. @param where for messages.
Status Canonize(const std::string& where, caffe::BlobProto* matrix) {
  for (const double value : matrix->double_data()) matrix->add_data(static_cast<float>(value));
  matrix->clear_double_data();
  const int64_t count = matrix->data_size();
  const int64_t classes = std::llround(std::sqrt(static_cast<double>(count)));
  const double by_shape = CountByShape(*matrix);
  if (by_shape >= 0 && by_shape != static_cast<double>(count)) {
    return InvalidArgument("%s has a shape of %g numbers, but %lld numbers", where.c_str(), by_shape,
                           static_cast<long long>(count));
  }
  if (count == 0 || classes * classes != count) {
    return InvalidArgument("%s has %lld numbers; expected a matrix, as many rows as columns, one for each class",
                           where.c_str(), static_cast<long long>(count));
  }
  for (int64_t i = 0; i < count; ++i) {
    const float value = matrix->data(static_cast<int>(i));
    if (std::isfinite(value)) continue;
    return InvalidArgument("%s has %g in row %lld, column %lld; expected finite numbers", where.c_str(), value,
                           static_cast<long long>(i / classes), static_cast<long long>(i % classes));
  }
  caffe::BlobProto bare;
  bare.mutable_shape()->add_dim(classes);
  bare.mutable_shape()->add_dim(classes);
  bare.mutable_data()->Swap(matrix->mutable_data());
  *matrix = std::move(bare);
  return OkStatus();
}

Status ReadMatrix(const std::string& layer, caffe::InfogainLossParameter* param) {
  std::string where = "layer \"" + layer + "\": infogain_loss_param { matrix }";
  if (!param->source().empty()) {
    where = Format("layer \"%s\": infogain_loss_param { source: \"%s\" }", layer.c_str(), param->source().c_str());
    if (param->has_matrix()) {
      return InvalidArgument("%s has a matrix as well; expected one of them", where.c_str());
    }
    const StatusOr<std::string> bytes = ReadInputFile(param->source());
    // No phase that runs may have the layer; else CheckInfogainLoss says so.
    if (bytes.status().code() == StatusCode::kNotFound) return OkStatus();
    if (!bytes.ok()) return bytes.status().Prepend(where);
    if (!ParseMessage(*bytes, param->mutable_matrix())) {
      return InvalidArgument("%s is truncated or not a binary BlobProto", where.c_str());
    }
    param->clear_source();
  }
  return param->has_matrix() ? Canonize(where, param->mutable_matrix()) : OkStatus();
}

}  // namespace

Status ReadInfogainMatrices(caffe::NetParameter* net) {
  for (caffe::LayerParameter& layer : *net->mutable_layer()) {
    if (!layer.has_infogain_loss_param()) continue;
    HP_RETURN_IF_ERROR(AtLayer(ReadMatrix(layer.name(), layer.mutable_infogain_loss_param()), layer));
  }
  return OkStatus();
}

}  // namespace hp
