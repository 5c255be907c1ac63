#pragma once

#include "base/block.h"
#include "base/shape.h"
#include "base/shared_blob.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Names a parameter blob: (layer name, index of the blob in its layer).
using BlobKey = std::pair<std::string, int>;

/// One blob of a file.
struct Blob {
  Shape shape;              ///< as it stands in the file
  bool legacy = false;      ///< the shape was written as num, channels, height, width, padded with ones in front
  std::vector<float> data;  ///< shape.count() values, dense
};

/// Fills `out` with the bytes of a blob from byte `begin` on, as they would lie in memory. Its errors end the writing.
using BlobSource = std::function<Status(int64_t begin, std::span<char> out)>;

/// A blob in the caller's memory, which must stay unmodified while it is written, or elsewhere.
struct BlobRef {
  Shape shape;
  const float* data = nullptr;  ///< host memory, [shape.count()], dense in Caffe's layout; null: `source`
  BlobSource source = nullptr;  ///< null: zeros are written
};
using BlobRefs = std::map<BlobKey, BlobRef>;

/// The weights of a .caffemodel.
struct CaffeModel {
  std::string path;               ///< of the file, for messages
  std::map<BlobKey, Blob> blobs;  ///< float32, also where the file has double
  std::set<std::string> bare;     ///< layers that it names and has no blobs of

  /// @return null: there is no such blob. Valid as long as `blobs` is unchanged.
  const Blob* Find(const std::string& layer, int blob) const;
  /// Copies a block of a blob to `out`.
  /// @param expected shape of the whole blob in the net; a legacy blob may have ones in front (ShapeFits).
  /// @param block of that blob; a shard's rows, or all of it.
  /// @param out [block.count()], dense.
  /// @return kNotFound: the file has no such blob; kFailedPrecondition: its shape is another one. The message names
  /// file, layer, blob, and what was found and expected.
  Status CopyBlock(const std::string& layer, int blob, const Shape& expected, const Block& block,
                   std::span<float> out) const;
  /// The same of a parameter that the net has under several names: its values are those of the last name that the file
  /// has, since Caffe reads one after the other into one memory. Errors as above, of that name; or of the first.
  /// @param names in the order of the net's layers, the owner first; `block` is one of its shape.
  Status CopyBlock(const std::vector<SharedBlob>& names, const Block& block, std::span<float> out) const;
  /// That name. @return null: the file has none of them.
  const SharedBlob* LastOf(const std::vector<SharedBlob>& names) const;
};

/// Whether a blob of a file may be read as `expected`: the shapes are equal, or a legacy blob has ones in front (files
/// of Caffe before 2014 have 1 x 1 x N x K for an inner product and 1 x 1 x 1 x N for a bias). Source: Caffe,
/// src/caffe/blob.cpp, Blob::ShapeEquals.
bool ShapeFits(const Blob& blob, const Shape& expected);
/// ShapeFits as a Status. @param layer,index stand in the message.
/// @return kFailedPrecondition, naming the layer, the blob's index, the shape found and the shape expected.
Status CheckShape(const Blob& blob, const std::string& layer, int index, const Shape& expected);

/// Reads all blobs of a .caffemodel, layer by layer, whether its entries are `layer` or the older `layers`; or of an
/// HDF5 file (hdf5_file.h), whatever its name. Of NVIDIA's BatchNorm with scale_bias the factors and biases are those
/// of a layer NAME_scale, as in nets. A layer without a name is called after its type, as in nets. Only names, types
/// and blobs are looked at: forks have other fields of their own.
/// @return kNotFound: no such file; kInvalidArgument: it can't be opened, is a .solverstate, or is a .safetensors, with
/// the command that converts it; kDataLoss: it is truncated, not a .caffemodel, without any layer, or too large for
/// protobuf (2 GiB).
StatusOr<CaffeModel> ReadCaffeModel(const std::string& path);
/// As ReadCaffeModel; but a file without any layer is that of a net without parameters.
StatusOr<CaffeModel> ReadSavedModel(const std::string& path);

/// The blobs that stand inside the layers of a net's own file, which a training begins with where no file of weights
/// has others. Its path is for messages: `net "NAME"`.
/// @return kDataLoss: a blob's shape contradicts its number of values; names the layer.
StatusOr<CaffeModel> ModelInNet(const caffe::NetParameter& net);

/// Writes a .caffemodel, layer by layer from the caller's memory to the file, without a second copy; or HDF5, which has
/// no limit of size, if the path ends in ".h5". Atomic: after an error, or a crash at any moment, `path` is what it was
/// before. Lasts through a power failure once it returns ok.
/// @param net the training net, as Caffe writes it; blobs that it already contains are left out. Its layers are written
/// under their GivenNames (proto/layer_names.h).
/// @param blobs those to put into its layers; each must belong to a layer of `net`, and a layer's must count from 0
/// without a gap (CHECK).
/// @return kResourceExhausted: disk full or over protobuf's 2 GiB; kInvalidArgument: the folder cannot be written, or a
/// name cannot stand in HDF5 (CheckHdf5Names); kFailedPrecondition: CheckHdf5.
Status WriteCaffeModel(const std::string& path, const caffe::NetParameter& net, const BlobRefs& blobs);

}  // namespace hp
