#pragma once

#include "base/block.h"
#include "base/shape.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// (layer name, index of the blob in its layer).
using BlobKey = std::pair<std::string, int>;

/// One blob of a file.
struct Blob {
  Shape shape;          ///< as it stands in the file
  bool legacy = false;  ///< written as num, channels, height, width, padded with ones in front
  std::vector<float> data;
};

/// A blob in somebody's memory, dense in Caffe's layout.
struct BlobRef {
  Shape shape;
  const float* data = nullptr;
};
using BlobRefs = std::map<BlobKey, BlobRef>;

/// The weights of a .caffemodel.
struct CaffeModel {
  std::string path;
  std::map<BlobKey, Blob> blobs;

  const Blob* Find(const std::string& layer, int blob) const;
  /// Copies a block of a blob whose whole shape the net says is `expected`; `out` [block.count()] gets it dense.
  /// @return kNotFound: the file has no such blob; kFailedPrecondition: its shape is another one. The message names
  /// file, layer, blob, and what was found and expected.
  Status CopyBlock(const std::string& layer, int blob, const Shape& expected, const Block& block,
                   std::span<float> out) const;
};

/// Whether a blob of a file may be read as `expected`. A legacy blob may have ones in front (Caffe's files before 2014
/// have 1 x 1 x N x K for an inner product and 1 x 1 x 1 x N for a bias).
/// Source: Caffe, src/caffe/blob.cpp, Blob::ShapeEquals.
bool ShapeFits(const Blob& blob, const Shape& expected);
/// @return kFailedPrecondition naming the layer, the blob's index, the shape found and the shape expected.
Status CheckShape(const Blob& blob, const std::string& layer, int index, const Shape& expected);

/// Reads all blobs of a .caffemodel, of `layer` (now) and `layers` (before 2014) entries, layer by layer.
/// @return kNotFound: no such file; kDataLoss: it is truncated, not a .caffemodel, or over protobuf's 2 GiB.
StatusOr<CaffeModel> ReadCaffeModel(const std::string& path);

/// Writes `net` (the train net, as Caffe does; blobs that it already has are left out) with `blobs` put into its
/// layers. Goes layer by layer from the caller's memory to the file: no second copy. Atomic: after an error, or a crash
/// at any moment, `path` is what it was before.
/// @return kResourceExhausted: disk full or over protobuf's 2 GiB; kInvalidArgument: the folder cannot be written.
Status WriteCaffeModel(const std::string& path, const caffe::NetParameter& net, const BlobRefs& blobs);

}  // namespace hp
