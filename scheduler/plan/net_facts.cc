#include "scheduler/plan/net_facts.h"

#include "proto/net_filter.h"

#include <set>

namespace hp {

bool IsSource(const std::string& type) {
  static const std::set<std::string> kTypes = {"Data",  "DummyData",  "HDF5Data",  "ImageData",
                                               "Input", "MemoryData", "WindowData"};
  return kTypes.count(type) > 0;
}

bool HasParameters(const std::string& type) {
  static const std::set<std::string> kTypes = {"BatchNorm", "Bias",         "Convolution", "Deconvolution",
                                               "Embed",     "InnerProduct", "LSTM",        "PReLU",
                                               "Parameter", "RNN",          "Scale"};
  return kTypes.count(type) > 0;
}

bool ReadsLabels(const std::string& type) { return type == "SoftmaxWithLoss" || type == "Accuracy"; }

BatchSize BatchSizeOf(const caffe::NetParameter& net, caffe::Phase phase) {
  BatchSize input;
  for (int i : LayersOf(net, phase)) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (layer.type() == "Data") return {layer.data_param().batch_size(), layer.name()};
    if (layer.type() == "Input" && input.samples < 0 && layer.input_param().shape_size() > 0 &&
        layer.input_param().shape(0).dim_size() > 0) {
      input = {layer.input_param().shape(0).dim(0), layer.name()};
    }
  }
  return input;
}

}  // namespace hp
