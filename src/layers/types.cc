#include "layers/types.h"

#include <strings.h>

#include <algorithm>
#include <numeric>

namespace hp {
namespace {

// Every type that BVLC Caffe 1.0 and its master register.
constexpr const char* kCaffeTypes[] = {"AbsVal",
                                       "Accuracy",
                                       "ArgMax",
                                       "BNLL",
                                       "BatchNorm",
                                       "BatchReindex",
                                       "Bias",
                                       "Clip",
                                       "Concat",
                                       "ContrastiveLoss",
                                       "Convolution",
                                       "Crop",
                                       "Data",
                                       "Deconvolution",
                                       "Dropout",
                                       "DummyData",
                                       "ELU",
                                       "Eltwise",
                                       "Embed",
                                       "EuclideanLoss",
                                       "Exp",
                                       "Filter",
                                       "Flatten",
                                       "HDF5Data",
                                       "HDF5Output",
                                       "HingeLoss",
                                       "Im2col",
                                       "ImageData",
                                       "InfogainLoss",
                                       "InnerProduct",
                                       "Input",
                                       "LRN",
                                       "LSTM",
                                       "LSTMUnit",
                                       "Log",
                                       "MVN",
                                       "MemoryData",
                                       "MultinomialLogisticLoss",
                                       "PReLU",
                                       "Parameter",
                                       "Pooling",
                                       "Power",
                                       "Python",
                                       "RNN",
                                       "ReLU",
                                       "Reduction",
                                       "Reshape",
                                       "SPP",
                                       "Scale",
                                       "Sigmoid",
                                       "SigmoidCrossEntropyLoss",
                                       "Silence",
                                       "Slice",
                                       "Softmax",
                                       "SoftmaxWithLoss",
                                       "Split",
                                       "Swish",
                                       "TanH",
                                       "Threshold",
                                       "Tile",
                                       "WindowData"};

/// Levenshtein's distance, upper and lower case alike.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (tolower(a[i]) != tolower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Whether a user who wrote `name` may have meant `type`: few slips, or one is the beginning of the other.
bool IsNear(const std::string& name, const std::string& type) {
  const size_t shorter = std::min(name.size(), type.size());
  const bool begins = shorter >= 3 && strncasecmp(name.c_str(), type.c_str(), shorter) == 0;
  return begins || EditDistance(name, type) <= std::max<size_t>(1, type.size() / 3);
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const std::vector<LayerType>& LayerTypes() {
  static const std::vector<LayerType> kTypes = {
      {"Accuracy", MakeAccuracyLayer, {"accuracy_param"}, 2, 2, 1, 2},
      {"Concat", MakeConcatLayer, {"concat_param"}, 1, kAnyNumber, 1, 1},
      {"Convolution", MakeConvolutionLayer, {"convolution_param"}, 1, 1, 1, 1, 2},
      {"Data", MakeDataLayer, {"data_param", "transform_param"}, 0, 0, 1, 2},
      {"Dropout", MakeDropoutLayer, {"dropout_param"}, 1, 1, 1, 1},
      {"Eltwise", MakeEltwiseLayer, {"eltwise_param"}, 2, kAnyNumber, 1, 1},
      {"Flatten", MakeFlattenLayer, {"flatten_param"}, 1, 1, 1, 1},
      {"InnerProduct", MakeInnerProductLayer, {"inner_product_param"}, 1, 1, 1, 1, 2},
      {"Input", MakeInputLayer, {"input_param"}, 0, 0, 1, kAnyNumber},
      {"LRN", MakeLrnLayer, {"lrn_param"}, 1, 1, 1, 1},
      {"Pooling", MakePoolingLayer, {"pooling_param"}, 1, 1, 1, 1},
      {"ReLU", MakeActivationLayer, {"relu_param"}, 1, 1, 1, 1},
      {"Sigmoid", MakeActivationLayer, {"sigmoid_param"}, 1, 1, 1, 1},
      {"Softmax", MakeSoftmaxLayer, {"softmax_param"}, 1, 1, 1, 1},
      {"SoftmaxWithLoss", MakeSoftmaxLossLayer, {"loss_param", "softmax_param"}, 2, 2, 0, 2},
      {"Split", MakeSplitLayer, {}, 1, 1, 1, kAnyNumber},
      {"TanH", MakeActivationLayer, {"tanh_param"}, 1, 1, 1, 1},
  };
  return kTypes;
}

const LayerType* FindLayerType(const std::string& name) {
  for (const LayerType& type : LayerTypes()) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

bool IsCaffeLayerType(const std::string& name) {
  return std::find(std::begin(kCaffeTypes), std::end(kCaffeTypes), name) != std::end(kCaffeTypes);
}

std::string DescribeUnsupportedType(const std::string& name) {
  if (IsCaffeLayerType(name)) return "type " + name + " is a Caffe layer that hpnode does not support yet";
  std::vector<std::string> all, near;
  for (const LayerType& type : LayerTypes()) {
    all.push_back(type.name);
    if (IsNear(name, type.name)) near.push_back(type.name);
  }
  const std::string unknown = "unknown type \"" + name + "\"";
  return near.empty() ? unknown + "; known are " + Join(all) : unknown + "; did you mean " + Join(near) + "?";
}

}  // namespace hp
