#include "proto/hash.h"

#include "base/hash.h"
#include "proto/net_filter.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <string>

namespace hp {

uint64_t HashMessage(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return HashBytes(bytes);
}

uint64_t NetHash(const caffe::NetParameter& net) {
  caffe::NetParameter bare = net;
  const caffe::NetState trains = StateOf(net, caffe::TRAIN);
  for (caffe::LayerParameter& layer : *bare.mutable_layer()) {
    layer.clear_place();
    if (layer.has_data_param()) {
      layer.mutable_data_param()->clear_source();
      layer.mutable_data_param()->clear_mean_file();
    }
    if (layer.has_image_data_param()) {
      layer.mutable_image_data_param()->clear_source();
      layer.mutable_image_data_param()->clear_root_folder();
      layer.mutable_image_data_param()->clear_mean_file();
    }
    if (layer.has_hdf5_data_param()) layer.mutable_hdf5_data_param()->clear_source();
    if (layer.has_transform_param()) layer.mutable_transform_param()->clear_mean_file();
    // Its file may be there or not.
    if (layer.has_infogain_loss_param() && !LayerIsIn(layer, trains)) {
      layer.mutable_infogain_loss_param()->clear_source();
      layer.mutable_infogain_loss_param()->clear_matrix();
    }
  }
  return HashMessage(bare);
}

uint64_t SolverHash(const caffe::SolverParameter& solver) {
  caffe::SolverParameter bare = solver;
  bare.clear_net();
  bare.clear_net_param();
  bare.clear_train_net();
  bare.clear_test_net();
  bare.clear_train_net_param();
  bare.clear_test_net_param();
  bare.clear_weights();
  bare.clear_debug_info();
  bare.clear_random_seed();
  bare.clear_snapshot_prefix();
  bare.clear_solver_mode();
  bare.clear_device_id();
  return HashMessage(bare);
}

}  // namespace hp
