#include "proto/caffe_types.h"

#include "base/format.h"

namespace hp {
namespace {

constexpr char kTime[] =
    "its axis 0 is time, which it goes along from step to step; here axis 0 is the samples, which nodes and "
    "micro-batches divide";
constexpr char kRows[] =
    "it passes on other rows than it gets; here memory for the rows of each micro-batch is agreed before training "
    "begins";

constexpr CaffeType kTypes[] = {
    {.name = "AbsVal"},
    {.name = "Accuracy"},
    {.name = "ArgMax"},
    {.name = "BNLL"},
    {.name = "BatchNorm", .parameters = true},
    {.name = "BatchReindex", .reason = kRows},
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
    {.name = "Filter", .reason = kRows},
    {.name = "Flatten"},
    {.name = "HDF5Data", .source = true},
    {.name = "HDF5Output"},
    {.name = "HingeLoss"},
    {.name = "Im2col"},
    {.name = "ImageData", .source = true},
    {.name = "InfogainLoss"},
    {.name = "InnerProduct", .parameters = true},
    {.name = "Input", .source = true},
    {.name = "LRN"},
    {.name = "LSTM", .parameters = true, .reason = kTime},
    {.name = "LSTMUnit", .reason = kTime},
    {.name = "Log"},
    {.name = "MVN"},
    {.name = "MemoryData",
     .source = true,
     .reason = "its samples come from the memory of the program around Caffe, and there is none here; expected a Data, "
               "ImageData or HDF5Data layer, or an Input layer in a deploy net"},
    {.name = "MultinomialLogisticLoss"},
    {.name = "PReLU", .parameters = true},
    {.name = "Parameter", .parameters = true},
    {.name = "Pooling"},
    {.name = "Power"},
    {.name = "Python",
     .reason = "its code would have to run in every node, and nodes run no Python; expected layers of other types, or "
               "in place of one that reads data a database (convert_imageset) or HDF5 files"},
    {.name = "RNN", .parameters = true, .reason = kTime},
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
    {.name = "WindowData",
     .source = true,
     .reason = "it crops windows out of images while it reads them; expected a Data or ImageData layer of images that "
               "are cropped already (convert_imageset makes a database of them)"},
};

constexpr char kDepthwise[] = "a Convolution whose group is the number of its bottom's channels";

constexpr ForkType kForkTypes[] = {
    {.name = "AnnotatedData", .field = "annotated_data_param"},
    {.name = "Axpy"},
    {.name = "BN", .field = "bn_param", .instead = "a BatchNorm, and behind it a Scale with bias_term: true"},
    {.name = "BilinearInterpolation"},
    {.name = "CTCLoss"},
    {.name = "CenterLoss", .field = "center_loss_param"},
    {.name = "Convolution3D"},
    {.name = "ConvolutionDepthwise", .instead = kDepthwise},
    {.name = "Correlation"},
    {.name = "DataAugmentation"},
    {.name = "DenseImageData", .field = "dense_image_data_param"},
    {.name = "DepthwiseConvolution", .instead = kDepthwise},
    {.name = "DetectionOutput", .field = "detection_output_param"},
    {.name = "FlowWarp"},
    {.name = "ImageSegData"},
    {.name = "Interp", .field = "interp_param"},
    {.name = "L1Loss"},
    {.name = "MatRead"},
    {.name = "MatWrite"},
    {.name = "MultiBoxLoss", .field = "multibox_loss_param"},
    {.name = "Normalize", .field = "norm_param"},
    {.name = "PSROIPooling", .field = "psroi_pooling_param"},
    {.name = "Permute", .field = "permute_param"},
    {.name = "Pooling3D"},
    {.name = "PriorBox", .field = "prior_box_param"},
    {.name = "ROIPooling", .field = "roi_pooling_param"},
    {.name = "ReLU6", .field = "relu6_param", .instead = "a Clip with clip_param { min: 0 max: 6 }"},
    {.name = "Resample"},
    {.name = "SegAccuracy"},
    {.name = "ShuffleChannel", .field = "shuffle_channel_param"},
    {.name = "SmoothL1Loss", .field = "smooth_l1_loss_param"},
    {.name = "TripletLoss", .field = "triplet_loss_param"},
    {.name = "Unpooling"},
    {.name = "Upsample", .field = "upsample_param"},
    {.name = "VideoData"},
    {.name = "WarpCTC"},
};

}  // namespace

const CaffeType* FindCaffeType(const std::string& name) {
  for (const CaffeType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

const ForkType* FindForkType(const std::string& name) {
  for (const ForkType& type : kForkTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

const ForkType* FindForkField(const std::string& field) {
  for (const ForkType& type : kForkTypes) {
    if (type.field != nullptr && field == type.field) return &type;
  }
  return nullptr;
}

std::string DescribeForkType(const ForkType& type) {
  const std::string text =
      std::string("type ") + type.name + " is no layer of Caffe's but of a fork, and hpnode does not support it";
  return type.instead == nullptr ? text : text + "; expected " + type.instead;
}

std::string DescribeStrangeType(const std::string& name) {
  return "type " + Printable(name) + " is no layer of Caffe's, and hpnode does not support it";
}

}  // namespace hp
