#include "commands/output_files.h"

#include "proto/net_filter.h"

#include "glog/logging.h"

#include <algorithm>
#include <filesystem>

namespace hp {
namespace {

constexpr size_t kSets = 2;
constexpr const char* kNames[kSets] = {"data", "label"};

Status CheckKept(const caffe::NetParameter& net, const std::vector<int>& layers, int output) {
  const caffe::LayerParameter& layer = net.layer(output);
  for (const int i : layers) {
    if (i <= output) continue;
    for (const std::string& top : net.layer(i).top()) {
      if (std::find(layer.bottom().begin(), layer.bottom().end(), top) == layer.bottom().end()) continue;
      return InvalidArgument(
          "layer \"%s\": its bottom \"%s\" is overwritten by layer \"%s\"; expected a top of another name there",
          layer.name().c_str(), top.c_str(), net.layer(i).name().c_str());
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<OutputFiles> OutputFiles::Of(const caffe::NetParameter& net, Phase phase) {
  OutputFiles files;
  const std::vector<int> layers = LayersOf(net, phase);
  for (const int i : layers) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (layer.type() != "HDF5Output") continue;
    HP_RETURN_IF_ERROR(CheckKept(net, layers, i));
    const std::string path = std::filesystem::path(layer.hdf5_output_param().file_name()).lexically_normal().string();
    const auto other = std::find(files.paths_.begin(), files.paths_.end(), path);
    if (other != files.paths_.end()) {
      return InvalidArgument("layers \"%s\" and \"%s\" both write %s",
                             files.layers_[other - files.paths_.begin()].c_str(), layer.name().c_str(), path.c_str());
    }
    files.layers_.push_back(layer.name());
    files.paths_.push_back(path);
    files.blobs_.insert(files.blobs_.end(), layer.bottom().begin(), layer.bottom().end());
  }
  return files;
}

Status OutputFiles::Create(const ForwardNet& net, size_t first, int64_t batches) {
  first_ = first;
  for (size_t i = 0; i < layers_.size(); ++i) {
    std::vector<Hdf5RowsFile::Set> sets;
    for (size_t set = 0; set < kSets; ++set) {
      const Shape& shape = net.blob_shape(first_ + i * kSets + set);
      if (shape.rank() < 1 || shape.rank() > 4 || shape[0] != net.rows()) {
        return InvalidArgument(
            "layer \"%s\": bottom \"%s\" has the shape [%s]; expected values for each of %lld samples, of at most four "
            "axes",
            layers_[i].c_str(), blobs_[i * kSets + set].c_str(), shape.ToString().c_str(),
            static_cast<long long>(net.rows()));
      }
      std::vector<int64_t> row(shape.dims().begin() + 1, shape.dims().end());
      row.resize(3, 1);
      sets.push_back({kNames[set], Shape(std::move(row))});
    }
    HP_ASSIGN_OR_RETURN(auto file, Hdf5RowsFile::Create(paths_[i], std::move(sets), batches * net.rows()));
    files_.push_back(std::move(file));
  }
  return OkStatus();
}

Status OutputFiles::Put(const ForwardNet& net, int64_t batch) {
  for (size_t i = 0; i < files_.size(); ++i) {
    for (size_t set = 0; set < kSets; ++set) {
      HP_ASSIGN_OR_RETURN(const std::vector<float> values, net.ReadBlob(first_ + i * kSets + set));
      HP_RETURN_IF_ERROR(files_[i]->Put(set, batch * net.rows(), values));
    }
  }
  return OkStatus();
}

Status OutputFiles::Finish() {
  for (size_t i = 0; i < files_.size(); ++i) {
    HP_RETURN_IF_ERROR(files_[i]->Finish());
    LOG(INFO) << "layer \"" << layers_[i] << "\" has written " << paths_[i];
  }
  return OkStatus();
}

}  // namespace hp
