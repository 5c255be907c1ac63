// A .caffemodel is a NetParameter whose layers contain their blobs. It is read and written layer by layer
// (message_file.h), with each layer's head, the parameter without blobs, as an ordinary message and its blobs straight
// from memory.
#include "checkpoint/weights.h"

#include "base/format.h"
#include "base/pending_file.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/message_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/snapshot_names.h"
#include "checkpoint/summed_file.h"
#include "checkpoint/weights_stream.h"
#include "proto/layer_names.h"
#include "proto/weights.pb.h"

#include "glog/logging.h"
#include "google/protobuf/io/coded_stream.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <type_traits>

namespace hp {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

/// Names of a file's layers so far.
using Names = std::set<std::string>;

/// Layers of one name are several, as in nets (NameLayersApart).
std::string NewName(const std::string& given, Names* names) {
  const std::string name = DistinctName(given, [names](const std::string& taken) { return names->contains(taken); });
  names->insert(name);
  return name;
}

/// How many of a layer's blobs are its own: those behind are of the Scale layer that nets have behind NVIDIA's
/// BatchNorm with scale_bias (UpgradeNet). The blobs tell: forks have that field under several numbers.
template <typename LayerProto>
int OwnBlobs(const LayerProto& layer) {
  if constexpr (std::is_same_v<LayerProto, LayerBlobs>) {
    if (layer.type() == "BatchNorm" && layer.blobs_size() == 5) return 3;
  }
  return layer.blobs_size();
}

/// One without a name is called after its type, as in nets (NameLayersApart).
template <typename LayerProto>
std::string GivenName(const LayerProto& layer) {
  if constexpr (std::is_same_v<LayerProto, LayerBlobs>) {
    if (layer.name().empty()) return layer.type();
  }
  return layer.name();
}

template <typename LayerProto>
Status TakeBlobs(const LayerProto& layer, Names* names, CaffeModel* model) {
  const std::string given = GivenName(layer);
  std::string name = NewName(given, names);
  const int own = OwnBlobs(layer);
  if (own == 0) model->bare.insert(name);
  for (int i = 0, first = 0; i < layer.blobs_size(); ++i) {
    if (i == own) {
      name = NewName(given + "_scale", names);
      first = own;
    }
    auto blob = TakeBlob(layer.blobs(i));
    if (!blob.ok()) return blob.status().Prepend("layer \"" + name + "\" blob " + std::to_string(i - first));
    model->blobs.insert_or_assign({name, i - first}, std::move(*blob));
  }
  return OkStatus();
}

/// The blobs of NVIDIA's BatchNorm with scale_bias are those of two layers in an HDF5 file as well, which has no types:
/// no other layer has five, of C, C, 1, C and C values.
void SplitScaledBatchNorms(CaffeModel* model) {
  std::vector<std::string> layers;
  for (const auto& [key, blob] : model->blobs) {
    if (key.second == 0) layers.push_back(key.first);
  }
  for (const std::string& layer : layers) {
    std::vector<size_t> counts;
    for (int i = 0; model->Find(layer, i) != nullptr; ++i) counts.push_back(model->Find(layer, i)->data.size());
    const std::string scale = layer + "_scale";
    if (model->Find(scale, 0) != nullptr || counts.empty()) continue;
    if (counts != std::vector<size_t>{counts[0], counts[0], 1, counts[0], counts[0]}) continue;
    for (int i = 3; i < 5; ++i) {
      auto blob = model->blobs.extract({layer, i});
      blob.key() = {scale, i - 3};
      model->blobs.insert(std::move(blob));
    }
  }
}

Status ReadLayer(CodedInputStream* part, Names* names, CaffeModel* model) {
  LayerBlobs layer;
  HP_RETURN_IF_ERROR(ParsePart(part, &layer));
  return TakeBlobs(layer, names, model);
}

// Of the form of 2014, or of that of 2013, which has name and blobs in a layer inside.
Status ReadOldLayer(CodedInputStream* part, Names* names, CaffeModel* model) {
  V1LayerBlobs layer;
  HP_RETURN_IF_ERROR(ParsePart(part, &layer));
  return layer.has_layer() ? TakeBlobs(layer.layer(), names, model) : TakeBlobs(layer, names, model);
}

// The blobs of one layer, in their order.
std::vector<BlobRef> BlobsOf(const std::string& layer, const BlobRefs& blobs) {
  std::vector<BlobRef> found;
  for (auto at = blobs.find({layer, 0}); at != blobs.end() && at->first == BlobKey(layer, found.size()); ++at) {
    found.push_back(at->second);
  }
  return found;
}

struct LayerPart {
  caffe::LayerParameter head;  // all but the blobs
  std::vector<BlobRef> blobs;

  int64_t bytes() const {
    int64_t sum = static_cast<int64_t>(head.ByteSizeLong());
    for (const BlobRef& blob : blobs) sum += BlobFieldBytes(blob);
    return sum;
  }
};

int64_t FieldBytes(int field, int64_t bytes) {
  return CodedOutputStream::VarintSize32(field << 3) + CodedOutputStream::VarintSize64(bytes) + bytes;
}

Status WriteLayer(const LayerPart& layer, CodedOutputStream* out) {
  constexpr uint32_t kTag = caffe::NetParameter::kLayerFieldNumber << 3 | 2;  // length-delimited
  out->WriteTag(kTag);
  out->WriteVarint64(layer.bytes());
  layer.head.SerializeToCodedStream(out);
  for (const BlobRef& blob : layer.blobs) {
    HP_RETURN_IF_ERROR(WriteBlobField(caffe::LayerParameter::kBlobsFieldNumber, blob, out));
  }
  return OkStatus();
}

}  // namespace

const Blob* CaffeModel::Find(const std::string& layer, int blob) const {
  const auto at = blobs.find({layer, blob});
  return at == blobs.end() ? nullptr : &at->second;
}

Status CaffeModel::CopyBlock(const std::string& layer, int blob, const Shape& expected, const Block& block,
                             std::span<float> out) const {
  return CopyBlock({{layer, blob, expected}}, block, out);
}

Status CaffeModel::CopyBlock(const std::vector<SharedBlob>& names, const Block& block, std::span<float> out) const {
  const SharedBlob* const name = LastOf(names);
  if (name == nullptr) {
    return NotFound("%s: no blob %d of layer \"%s\"", path.c_str(), names[0].blob, names[0].layer.c_str());
  }
  const Blob& found = *Find(name->layer, name->blob);
  HP_RETURN_IF_ERROR(CheckShape(found, name->layer, name->blob, name->shape).Prepend(path));
  CutBlock(found.data, names[0].shape, block, out);
  return OkStatus();
}

const SharedBlob* CaffeModel::LastOf(const std::vector<SharedBlob>& names) const {
  const auto found = std::find_if(names.rbegin(), names.rend(),
                                  [this](const SharedBlob& name) { return Find(name.layer, name.blob) != nullptr; });
  return found == names.rend() ? nullptr : &*found;
}

bool ShapeFits(const Blob& blob, const Shape& expected) {
  if (!blob.legacy) return blob.shape == expected;
  if (expected.rank() > 4) return false;
  std::vector<int64_t> padded(4 - expected.rank(), 1);
  padded.insert(padded.end(), expected.dims().begin(), expected.dims().end());
  return blob.shape.dims() == padded;
}

Status CheckShape(const Blob& blob, const std::string& layer, int index, const Shape& expected) {
  if (ShapeFits(blob, expected)) return OkStatus();
  return FailedPrecondition("layer \"%s\" blob %d has shape \"%s\"; expected \"%s\"", layer.c_str(), index,
                            blob.shape.ToString().c_str(), expected.ToString().c_str());
}

StatusOr<CaffeModel> ReadCaffeModel(const std::string& path) {
  HP_ASSIGN_OR_RETURN(CaffeModel model, ReadSavedModel(path));
  // Many other files pass for a message without layers.
  const bool empty = model.blobs.empty() && model.bare.empty() && !IsHdf5File(path);
  if (empty) return DataLoss("%s: contains no layer", path.c_str());
  return model;
}

StatusOr<CaffeModel> ReadSavedModel(const std::string& path) {
  if (IsSafetensorsPath(path)) {
    return InvalidArgument(
        "%s: expected a .caffemodel; make one of these weights first: hpconvert weights %s %s "
        "--net=NET.prototxt --names=NAMES.txt (hpconvert --help)",
        path.c_str(), path.c_str(), std::filesystem::path(path).replace_extension(".caffemodel").c_str());
  }
  if (path.ends_with(".solverstate") || path.ends_with(".solverstate.h5")) {
    return InvalidArgument("%s: expected a .caffemodel; a .solverstate is what a training is resumed from",
                           path.c_str());
  }
  CaffeModel model;
  model.path = path;
  if (IsHdf5File(path)) {
    HP_ASSIGN_OR_RETURN(model, ReadHdf5Model(path));
    SplitScaledBatchNorms(&model);
    return model;
  }
  Names names;
  const auto reader = [&](int field, CodedInputStream* part) {
    return field == caffe::NetParameter::kLayerFieldNumber ? ReadLayer(part, &names, &model)
                                                           : ReadOldLayer(part, &names, &model);
  };
  const std::set<int> parts = {caffe::NetParameter::kLayerFieldNumber, caffe::NetParameter::kLayersFieldNumber};
  HP_RETURN_IF_ERROR(ReadMessageFile(path, parts, reader, nullptr));
  return model;
}

StatusOr<CaffeModel> ModelInNet(const caffe::NetParameter& net) {
  CaffeModel model;
  model.path = "net \"" + net.name() + "\"";
  for (const caffe::LayerParameter& layer : net.layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      auto blob = TakeBlob(layer.blobs(i));
      if (!blob.ok()) {
        return blob.status().Prepend(Format("%s: layer \"%s\" blob %d", model.path.c_str(), layer.name().c_str(), i));
      }
      model.blobs.emplace(BlobKey(layer.name(), i), std::move(*blob));
    }
  }
  return model;
}

Status WriteModelTo(const caffe::NetParameter& net, const BlobRefs& blobs, SummedFile* file) {
  caffe::NetParameter head = net;
  head.clear_layer();
  head.clear_layers();
  std::vector<LayerPart> layers;
  int64_t bytes = static_cast<int64_t>(head.ByteSizeLong());
  size_t placed = 0;
  const std::vector<std::string> given = GivenNames(net);
  for (const caffe::LayerParameter& layer : net.layer()) {
    const std::string& name = given[layers.size()];
    layers.push_back({layer, BlobsOf(layer.name(), blobs)});
    layers.back().head.clear_blobs();
    layers.back().head.clear_place();
    if (layer.has_name()) layers.back().head.set_name(name);
    placed += layers.back().blobs.size();
    bytes += FieldBytes(caffe::NetParameter::kLayerFieldNumber, layers.back().bytes());
  }
  CHECK_EQ(placed, blobs.size()) << "blobs of layers that the net does not have";
  if (bytes > kMaxMessageBytes2GiB) {
    return ResourceExhausted(
        "%s: %.2f GB of parameters exceed the 2 GiB limit of a .caffemodel (protobuf); HDF5 (.caffemodel.h5) has none",
        file->path().c_str(), static_cast<double>(bytes) * 1e-9);
  }
  CodedOutputStream out(file->stream());
  head.SerializeToCodedStream(&out);
  for (const LayerPart& layer : layers) HP_RETURN_IF_ERROR(WriteLayer(layer, &out));
  return OkStatus();
}

namespace {

Status WriteAsHdf5(const std::string& path, const caffe::NetParameter& net, const BlobRefs& blobs) {
  std::set<std::string> layers;
  for (const auto& [key, blob] : blobs) layers.insert(key.first);
  HP_RETURN_IF_ERROR(CheckHdf5Names(net, layers, "another name, or a .caffemodel").Prepend(path));
  HP_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(path));
  HP_RETURN_IF_ERROR(WriteHdf5Model(file->temporary(), blobs));
  HP_RETURN_IF_ERROR(file->Sync());
  HP_RETURN_IF_ERROR(file->Commit());
  return SyncFolderOf(path);
}

}  // namespace

Status WriteCaffeModel(const std::string& path, const caffe::NetParameter& net, const BlobRefs& blobs) {
  const std::string target = ThroughLinks(path);
  if (IsHdf5Path(path)) return WriteAsHdf5(target, net, blobs);
  HP_ASSIGN_OR_RETURN(const auto file, SummedFile::Create(target));
  HP_RETURN_IF_ERROR(WriteModelTo(net, blobs, file.get()));
  HP_RETURN_IF_ERROR(file->Sync());
  HP_RETURN_IF_ERROR(file->Commit());
  return SyncFolderOf(target);
}

}  // namespace hp
