#include "net/plan/own_blobs.h"

#include <algorithm>

namespace hp {
namespace {

/// As it stands in the file, or in the form before 2014: num, channels, height and width; none of one number alone.
std::vector<int64_t> DimsOf(const caffe::BlobProto& blob) {
  if (blob.has_shape()) return {blob.shape().dim().begin(), blob.shape().dim().end()};
  if (!blob.has_num() && !blob.has_channels() && !blob.has_height() && !blob.has_width()) return {};
  return {blob.num(), blob.channels(), blob.height(), blob.width()};
}

std::vector<int64_t> WithoutOnesInFront(std::vector<int64_t> dims) {
  dims.erase(dims.begin(), std::find_if(dims.begin(), dims.end(), [](int64_t dim) { return dim != 1; }));
  return dims;
}

bool Fits(const caffe::BlobProto& blob, const Shape& expected) {
  const std::vector<int64_t> dims = DimsOf(blob);
  if (dims == expected.dims()) return true;
  return !blob.has_shape() && WithoutOnesInFront(dims) == WithoutOnesInFront(expected.dims());
}

Status CheckBlobs(const GraphLayer& entry, const std::vector<Shape>& in) {
  const char* const name = entry.traits.name().c_str();
  const std::vector<ParamSpec> expected = entry.traits.Params(in);
  if (entry.param->blobs_size() != std::ssize(expected)) {
    return InvalidArgument("layer \"%s\": the net's file has %d of its blobs; expected all %zu, or none", name,
                           entry.param->blobs_size(), expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const caffe::BlobProto& blob = entry.param->blobs(static_cast<int>(i));
    const int64_t values = std::max(blob.data_size(), blob.double_data_size());
    if (values != expected[i].shape.count() || !Fits(blob, expected[i].shape)) {
      return InvalidArgument(
          "layer \"%s\": blob %zu in the net's file has the shape [%s] and %lld values; expected [%s]", name, i,
          Shape(DimsOf(blob)).ToString().c_str(), static_cast<long long>(values), expected[i].shape.ToString().c_str());
    }
  }
  return OkStatus();
}

}  // namespace

Status CheckOwnBlobs(const NetGraph& graph, const std::vector<Shape>& shapes) {
  for (const GraphLayer& entry : graph.layers()) {
    const bool later_piece = entry.piece == GraphLayer::kSum || entry.piece == GraphLayer::kMerged;
    if (entry.param->blobs_size() == 0 || later_piece || entry.of_no_layer()) continue;
    std::vector<Shape> in;
    for (const int bottom : entry.bottoms) in.push_back(shapes[bottom]);
    HP_RETURN_IF_ERROR(CheckBlobs(entry, in));
  }
  return OkStatus();
}

}  // namespace hp
