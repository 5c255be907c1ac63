#include "layers/traits/caffe_types.h"

namespace hp {
namespace {

constexpr CaffeType kTypes[] = {
    {.name = "AbsVal"},
    {.name = "Accuracy"},
    {.name = "ArgMax"},
    {.name = "BNLL"},
    {.name = "BatchNorm", .parameters = true},
    {.name = "BatchReindex"},
    {.name = "Bias", .parameters = true},
    {.name = "Clip"},
    {.name = "Concat"},
    {.name = "ContrastiveLoss"},
    {.name = "Convolution", .parameters = true},
    {.name = "Crop"},
    {.name = "Data", .source = true},
    {.name = "Deconvolution", .parameters = true},
    {.name = "Dropout"},
    {.name = "DummyData", .source = true},
    {.name = "ELU"},
    {.name = "Eltwise"},
    {.name = "Embed", .parameters = true},
    {.name = "EuclideanLoss"},
    {.name = "Exp"},
    {.name = "Filter"},
    {.name = "Flatten"},
    {.name = "HDF5Data", .source = true},
    {.name = "HDF5Output",
     .reason = "the nodes of a job have parts of each batch, and no one of them could write the file; expected a net "
               "without it, and hpextract, which writes blobs of a trained net into databases"},
    {.name = "HingeLoss"},
    {.name = "Im2col"},
    {.name = "ImageData", .source = true},
    {.name = "InfogainLoss"},
    {.name = "InnerProduct", .parameters = true},
    {.name = "Input", .source = true},
    {.name = "LRN"},
    {.name = "LSTM", .parameters = true},
    {.name = "LSTMUnit"},
    {.name = "Log"},
    {.name = "MVN"},
    {.name = "MemoryData", .source = true},
    {.name = "MultinomialLogisticLoss"},
    {.name = "PReLU", .parameters = true},
    {.name = "Parameter",
     .parameters = true,
     .reason =
         "its top has no rows of samples, as all blobs of a micro-batch have; expected a Scale, Bias or PReLU with "
         "one bottom, which learn such numbers themselves"},
    {.name = "Pooling"},
    {.name = "Power"},
    {.name = "Python"},
    {.name = "RNN", .parameters = true},
    {.name = "ReLU"},
    {.name = "Reduction"},
    {.name = "Reshape"},
    {.name = "SPP"},
    {.name = "Scale", .parameters = true},
    {.name = "Sigmoid"},
    {.name = "SigmoidCrossEntropyLoss"},
    {.name = "Silence"},
    {.name = "Slice"},
    {.name = "Softmax"},
    {.name = "SoftmaxWithLoss"},
    {.name = "Split"},
    {.name = "Swish"},
    {.name = "TanH"},
    {.name = "Threshold"},
    {.name = "Tile"},
    {.name = "WindowData", .source = true},
};

}  // namespace

const CaffeType* FindCaffeType(const std::string& name) {
  for (const CaffeType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

}  // namespace hp
