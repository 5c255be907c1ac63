#include "proto/reshape_batch.h"

#include <cstdint>
#include <vector>

namespace hp {
namespace {

int64_t FirstDim(const caffe::BlobShape& shape) { return shape.dim_size() == 0 ? 0 : shape.dim(0); }

/// The batches that a layer without a bottom says; 0 for one that says none.
std::vector<int64_t> BatchesOf(const caffe::LayerParameter& layer) {
  if (layer.type() == "Parameter") return {};
  if (layer.type() == "Data") return {layer.data_param().batch_size()};
  if (layer.type() == "ImageData") return {layer.image_data_param().batch_size()};
  if (layer.type() == "HDF5Data") return {layer.hdf5_data_param().batch_size()};
  const bool input = layer.type() == "Input", dummy = layer.type() == "DummyData";
  std::vector<int64_t> batches;
  for (const caffe::BlobShape& shape : (input ? layer.input_param().shape() : layer.dummy_data_param().shape())) {
    batches.push_back(FirstDim(shape));
  }
  for (const uint32_t num : layer.dummy_data_param().num()) batches.push_back(num);
  return input || dummy ? batches : std::vector<int64_t>{0};
}

/// The batch of all sources of a net, of each phase; 0: they differ, or one of them is not known.
int64_t BatchOfSources(const caffe::NetParameter& net) {
  int64_t batch = 0;
  for (const caffe::LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() > 0) continue;
    for (const int64_t own : BatchesOf(layer)) {
      if (own <= 0 || (batch > 0 && own != batch)) return 0;
      batch = own;
    }
  }
  return batch;
}

}  // namespace

void KeepBatchOfReshapes(caffe::NetParameter* net) {
  const int64_t batch = BatchOfSources(*net);
  for (caffe::LayerParameter& layer : *net->mutable_layer()) {
    const caffe::ReshapeParameter& reshape = layer.reshape_param();
    if (layer.type() != "Reshape" || reshape.axis() != 0 || reshape.num_axes() == 0) continue;
    if (batch == 0 || reshape.shape().dim_size() == 0 || reshape.shape().dim(0) != batch) continue;
    layer.mutable_reshape_param()->mutable_shape()->set_dim(0, 0);
  }
}

}  // namespace hp
