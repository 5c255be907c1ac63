#include "data/record_source.h"

#include "data/hdf5_dataset.h"
#include "data/image_list_dataset.h"
#include "proto/caffe.pb.h"

namespace hp {

StatusOr<std::unique_ptr<Dataset>> OpenDatasetOf(const caffe::LayerParameter& layer, const DatasetOptions& options) {
  if (layer.type() == "ImageData") {
    const caffe::ImageDataParameter& images = layer.image_data_param();
    return ImageListDataset::Open(images.source(), images.root_folder(), options);
  }
  if (layer.type() == "HDF5Data") {
    return Hdf5Dataset::Open(layer.hdf5_data_param().source(), {layer.top().begin(), layer.top().end()}, options);
  }
  const caffe::DataParameter& data = layer.data_param();
  const DbBackend backend = data.backend() == caffe::DataParameter::LMDB ? DbBackend::kLmdb : DbBackend::kLevelDb;
  return Dataset::Open(data.source(), backend, options);
}

RecordOrder RecordOrderOf(const caffe::LayerParameter& layer, int64_t records, uint64_t seed, bool train) {
  const auto order = [&](bool shuffle, uint32_t rand_skip) {
    return RecordOrder(records, shuffle, seed, train ? rand_skip : 0);
  };
  const caffe::ImageDataParameter& images = layer.image_data_param();
  if (layer.type() == "ImageData") return order(images.shuffle(), images.rand_skip());
  if (layer.type() == "HDF5Data") return order(layer.hdf5_data_param().shuffle(), 0);
  return order(layer.data_param().shuffle(), layer.data_param().rand_skip());
}

}  // namespace hp
