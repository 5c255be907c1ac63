#include "layers/traits/net_warnings.h"
#include "proto/caffe_types.h"
#include "test/unit/layers/layer_test_util.h"

#include <gmock/gmock.h>

#include <array>
#include <map>
#include <set>

namespace hp::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Registry, KnownCaffeTypesThatAreNotSupportedAreNamed) {
  EXPECT_EQ(
      CreateError(R"(name: "lstm" type: "LSTM" bottom: "a" top: "b")"),
      "layer \"lstm\": type LSTM is a Caffe layer that hpnode does not support: its axis 0 is time, which it goes "
      "along from step to step; here axis 0 is the samples, which nodes and micro-batches divide");
  const std::map<std::string, std::string> said = {
      {"BatchReindex", "other rows than it gets"},
      {"Filter", "other rows than it gets"},
      {"LSTM", "axis 0 is time"},
      {"LSTMUnit", "axis 0 is time"},
      {"MemoryData", "expected a Data, ImageData or HDF5Data layer, or an Input layer in a deploy net"},
      {"Python", "nodes run no Python"},
      {"RNN", "axis 0 is time"},
      {"WindowData", "images that are cropped already"},
  };
  for (const auto& [type, reason] : said) {
    const std::string error = CreateError("name: \"x\" type: \"" + type + "\"");
    EXPECT_THAT(error, StartsWith("layer \"x\": type " + type + " is a Caffe layer that hpnode does not support: "));
    EXPECT_THAT(error, HasSubstr(reason));
  }
}

/// What such a layer is for is to be had otherwise.
TEST(Registry, TypesThatDoNotFitSayWhy) {
  EXPECT_EQ(CreateError(R"(name: "w" type: "HDF5Output" bottom: "a" bottom: "l")"),
            "layer \"w\": hdf5_output_param has no file_name");
  EXPECT_EQ(CreateError(R"(name: "p" type: "Parameter" top: "a" parameter_param { shape { dim: 3 dim: 0 } })"),
            "layer \"p\": parameter_param { shape } is [3 0]; expected dims of at least 1");
  for (const LayerType& type : LayerTypes::BuiltIn().all()) EXPECT_EQ(FindCaffeType(type.name)->reason, nullptr);
}

/// The names of Intel's Caffe are as good as Caffe's own.
TEST(Registry, EnginesOfIntelsAreRead) {
  for (const char* engine : {"MKL2017", "MKLDNN"}) {
    for (
        const char* text : {
            R"(type: "BatchNorm" bottom: "a" top: "a" batch_norm_param { engine: %s })",
            R"(type: "Concat" bottom: "a" bottom: "b" top: "c" concat_param { engine: %s })",
            R"(type: "Convolution" bottom: "a" top: "b" convolution_param { num_output: 8 kernel_size: 3 engine: %s })",
            R"(type: "Eltwise" bottom: "a" bottom: "b" top: "c" eltwise_param { engine: %s })",
            R"(type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 8 engine: %s })",
            R"(type: "LRN" bottom: "a" top: "b" lrn_param { engine: %s })",
            R"(type: "Pooling" bottom: "a" top: "b" pooling_param { kernel_size: 2 engine: %s })",
            R"(type: "ReLU" bottom: "a" top: "a" relu_param { engine: %s })",
            R"(type: "Softmax" bottom: "a" top: "b" softmax_param { engine: %s })",
        }) {
      std::string layer = std::string("name: \"x\" ") + text;
      layer.replace(layer.find("%s"), 2, engine);
      EXPECT_EQ(CreateError(layer), "") << layer;
    }
  }
}

TEST(Registry, UnknownTypesListNearMatches) {
  EXPECT_EQ(CreateError(R"(name: "r" type: "Relu" bottom: "a" top: "b")"),
            "layer \"r\": unknown type \"Relu\"; did you mean ReLU?");
  EXPECT_EQ(CreateError(R"(name: "d" type: "Dropuot" bottom: "a" top: "b")"),
            "layer \"d\": unknown type \"Dropuot\"; did you mean Dropout?");
  EXPECT_THAT(CreateError(R"(name: "l" type: "SoftmaxLoss" bottom: "a" top: "b")"), HasSubstr("SoftmaxWithLoss"));
  EXPECT_EQ(CreateError(R"(name: "q" type: "Quantum" bottom: "a" top: "b")"),
            "layer \"q\": type Quantum is no layer of Caffe's, and hpnode does not support it");
}

TEST(Registry, TypesOfForksSayWhatDoesInstead) {
  EXPECT_EQ(CreateError(R"(name: "r" type: "ReLU6" bottom: "a" top: "b")"),
            "layer \"r\": type ReLU6 is no layer of Caffe's but of a fork, and hpnode does not support it; expected a "
            "Clip with clip_param { min: 0 max: 6 }");
  for (const char* type : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    EXPECT_THAT(CreateError(std::string("name: \"c\" bottom: \"a\" top: \"b\" type: \"") + type + "\""),
                EndsWith("; expected a Convolution whose group is the number of its bottom's channels"));
  }
  for (const char* type : {"Normalize", "Pooling3D", "Convolution3D", "ImageSegData", "WarpCTC"}) {
    EXPECT_EQ(CreateError(std::string("name: \"n\" bottom: \"a\" top: \"b\" type: \"") + type + "\""),
              std::string("layer \"n\": type ") + type +
                  " is no layer of Caffe's but of a fork, and hpnode does not support it");
  }
  for (const LayerType& type : LayerTypes::BuiltIn().all()) EXPECT_EQ(FindForkType(type.name), nullptr);
}

TEST(Registry, EverySupportedTypeIsOneOfCaffes) {
  for (const LayerType& type : LayerTypes::BuiltIn().all()) EXPECT_NE(FindCaffeType(type.name), nullptr) << type.name;
}

TEST(Registry, EverySupportedTypeCanBeMade) {
  std::set<std::string> made;
  for (
      const char* text : {
          R"(name: "x" type: "AbsVal" bottom: "a" top: "a")",
          R"(name: "x" type: "Accuracy" bottom: "a" bottom: "l" top: "b" accuracy_param { top_k: 5 })",
          R"(name: "x" type: "ArgMax" bottom: "a" top: "b" argmax_param { axis: 1 top_k: 2 })",
          R"(name: "x" type: "BatchNorm" bottom: "a" top: "a" batch_norm_param { use_global_stats: false })",
          R"(name: "x" type: "BatchNorm" bottom: "a" top: "b" batch_norm_param { eps: 0 })",
          R"(name: "x" type: "Bias" bottom: "a" top: "a" bias_param { axis: 1 num_axes: 2 })",
          R"(name: "x" type: "BNLL" bottom: "a" top: "a")",
          R"(name: "x" type: "Clip" bottom: "a" top: "a" clip_param { min: -1 max: 1 })",
          R"(name: "x" type: "Concat" bottom: "a" bottom: "c" top: "b")",
          R"(name: "x" type: "ContrastiveLoss" bottom: "a" bottom: "c" bottom: "l" contrastive_loss_param { margin: 2 })",
          R"(name: "x" type: "Convolution" bottom: "a" top: "b" convolution_param { num_output: 4 kernel_size: 3 })",
          R"(name: "x" type: "Crop" bottom: "a" bottom: "c" top: "b" crop_param { axis: 2 offset: 1 offset: 2 })",
          R"(name: "x" type: "Data" top: "a" top: "l" data_param { source: "db" batch_size: 4 prefetch: 2 })",
          R"(name: "x" type: "Deconvolution" bottom: "a" top: "b" convolution_param { num_output: 4 kernel_size: 3 })",
          R"(name: "x" type: "Dropout" bottom: "a" top: "a")",
          R"(name: "x" type: "DummyData" top: "a" top: "l" dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } })",
          R"(name: "x" type: "Eltwise" bottom: "a" bottom: "c" top: "b")",
          R"(name: "x" type: "ELU" bottom: "a" top: "a" elu_param { alpha: -0.5 })",
          R"(name: "x" type: "Embed" bottom: "a" top: "b" embed_param { num_output: 4 input_dim: 3 })",
          R"(name: "x" type: "EuclideanLoss" bottom: "a" bottom: "c" top: "b")",
          R"(name: "x" type: "Exp" bottom: "a" top: "a" exp_param { base: 2 scale: 0.5 shift: 1 })",
          R"(name: "x" type: "Flatten" bottom: "a" top: "b")",
          R"(name: "x" type: "HDF5Data" top: "a" top: "l" hdf5_data_param { source: "list" batch_size: 4 })",
          R"(name: "x" type: "HingeLoss" bottom: "a" bottom: "l" hinge_loss_param { norm: L2 })",
          R"(name: "x" type: "Im2col" bottom: "a" top: "b" convolution_param { kernel_size: 3 axis: -3 })",
          R"(name: "x" type: "ImageData" top: "a" top: "l" image_data_param { source: "list" })",
          R"(name: "x" type: "InfogainLoss" bottom: "a" bottom: "l" infogain_loss_param { matrix { data: 1 } })",
          R"(name: "x" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 4 })",
          R"(name: "x" type: "InnerProduct" bottom: "a" top: "b"
             inner_product_param { num_output: 4 transpose: true axis: 2 })",
          R"(name: "x" type: "Input" top: "a" input_param { shape { dim: 1 dim: 2 } })",
          R"(name: "x" type: "Log" bottom: "a" top: "a" log_param { base: 10 })",
          R"(name: "x" type: "LRN" bottom: "a" top: "b")",
          R"(name: "x" type: "MultinomialLogisticLoss" bottom: "a" bottom: "l" top: "b")",
          R"(name: "x" type: "MVN" bottom: "a" top: "a" mvn_param { across_channels: true })",
          R"(name: "x" type: "Pooling" bottom: "a" top: "b" pooling_param { kernel_size: 2 })",
          R"(name: "x" type: "Pooling" bottom: "a" top: "b" pooling_param { kernel_size: 2 pool: STOCHASTIC })",
          R"(name: "x" type: "Power" bottom: "a" top: "a" power_param { power: 2 scale: 0.5 shift: 1 })",
          R"(name: "x" type: "PReLU" bottom: "a" top: "a" prelu_param { channel_shared: true })",
          R"(name: "x" type: "Reduction" bottom: "a" top: "b" reduction_param { operation: MEAN axis: 1 })",
          R"(name: "x" type: "ReLU" bottom: "a" top: "a" relu_param { engine: CUDNN })",
          R"(name: "x" type: "Reshape" bottom: "a" top: "b" reshape_param { shape { dim: 0 dim: -1 } })",
          R"(name: "x" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true })",
          R"(name: "x" type: "Sigmoid" bottom: "a" top: "a" sigmoid_param { engine: CAFFE })",
          R"(name: "x" type: "SigmoidCrossEntropyLoss" bottom: "a" bottom: "c" top: "b" loss_param { ignore_label: 3 })",
          R"(name: "x" type: "Silence" bottom: "a" bottom: "b" bottom: "c")",
          R"(name: "x" type: "HDF5Output" bottom: "a" bottom: "b" hdf5_output_param { file_name: "f" })",
          R"(name: "x" type: "Parameter" top: "a" parameter_param { shape { dim: 3 } })",
          R"(name: "x" type: "Slice" bottom: "a" top: "b" top: "c" slice_param { slice_dim: 1 slice_point: 2 })",
          R"(name: "x" type: "Scale" bottom: "a" top: "b" scale_param { bias_filler { value: 1 } })",
          R"(name: "x" type: "Softmax" bottom: "a" top: "a")",
          R"(name: "x" type: "Softmax" bottom: "a" top: "b" softmax_param { engine: CAFFE })",
          R"(name: "x" type: "SoftmaxWithLoss" bottom: "a" bottom: "l")",
          R"(name: "x" type: "SoftmaxWithLoss" bottom: "a" bottom: "l" top: "loss" softmax_param { axis: 1 })",
          R"(name: "x" type: "Split" bottom: "a" top: "b" top: "c")",
          R"(name: "x" type: "SPP" bottom: "a" top: "b" spp_param { pyramid_height: 2 })",
          R"(name: "x" type: "Swish" bottom: "a" top: "a" swish_param { beta: 2 })",
          R"(name: "x" type: "TanH" bottom: "a" top: "a")",
          R"(name: "x" type: "Threshold" bottom: "a" top: "a" threshold_param { threshold: 0.5 })",
          R"(name: "x" type: "Tile" bottom: "a" top: "b" tile_param { axis: 2 tiles: 3 })",
      }) {
    EXPECT_EQ(CreateError(text), "") << text;
    made.insert(ParseLayer(text).type());
  }
  for (const LayerType& type : LayerTypes::BuiltIn().all()) EXPECT_EQ(made.count(type.name), 1u) << type.name;
}

TEST(Registry, EveryRowIsWhole) {
  for (const LayerType& type : LayerTypes::BuiltIn().all()) {
    SCOPED_TRACE(type.name);
    const bool source = type.source != SourceKind::kNone;
    EXPECT_NE(type.output_shapes, nullptr);
    EXPECT_EQ(type.params != nullptr, type.most_blobs > 0);
    EXPECT_EQ(type.split_outputs != nullptr, type.channel_use == ChannelUse::kSplitOutput);
    EXPECT_EQ(type.batch_size != nullptr, source);
    EXPECT_EQ(OpFactories::BuiltIn().Has(type.name), !source && !type.discards) << "what makes its op";
    EXPECT_EQ(type.tops.most == 0 || type.parameter, type.discards);
    EXPECT_EQ(FindCaffeType(type.name)->source, source);
    EXPECT_EQ(FindCaffeType(type.name)->parameters, type.most_blobs > 0);
  }
}

std::vector<std::string> Warnings(const std::string& layers) {
  caffe::NetParameter net;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &net)) << layers;
  return NetWarnings(net, LayerTypes::BuiltIn());
}

TEST(NetWarnings, NameFieldsThatMeanNothingHere) {
  EXPECT_THAT(
      Warnings(R"(layer { name: "n" type: "LRN" lrn_param { norm_region: WITHIN_CHANNEL k: 2 } }
                          layer { name: "m" type: "MVN" mvn_param { normalize_variance: false eps: 1 } }
                          layer { name: "s" type: "Scale" bottom: "a" bottom: "b" scale_param { num_axes: 2 } }
                          layer { name: "d" type: "DummyData" dummy_data_param {
                            data_filler { type: "constant" } data_filler { type: "gaussian" value: 3 } } }
                          layer { name: "l" type: "LRN" lrn_param { k: 2 } })"),
      testing::ElementsAre(
          "layer \"n\": lrn_param { k } is ignored, as in Caffe: within a channel it is 1",
          "layer \"m\": mvn_param { eps } is ignored, as in Caffe: nothing is divided without normalize_variance",
          "layer \"s\": scale_param { num_axes } is ignored, as in Caffe: nothing is learned, the second bottom "
          "has the numbers",
          "layer \"d\": data_filler { value } is ignored, as in Caffe: a filler of type \"gaussian\" has none"));
}

TEST(NetWarnings, NameFieldsThatCaffeIgnores) {
  EXPECT_THAT(Warnings("debug_info: true force_backward: true"),
              testing::ElementsAre("the net's debug_info: true has no effect; hpnode --trace shows where time goes"));
  EXPECT_THAT(Warnings(R"(layer { name: "d" type: "Data" data_param { source: "db" batch_size: 8 backend: LMDB
                            prefetch: 2 force_encoded_color: true } transform_param { crop_size: 4 scale: 2 } })"),
              testing::IsEmpty());
  EXPECT_THAT(Warnings(R"(layer { name: "d" type: "Data" data_param { source: "db" mirror: false crop_size: 8 } }
                          layer { name: "i" type: "ImageData" image_data_param { scale: 2 mean_file: "m" } })"),
              testing::ElementsAre("layer \"d\": data_param { crop_size } is ignored, as in Caffe: expected it in "
                                   "transform_param, where a \"layer\" has it",
                                   StartsWith("layer \"d\": data_param { mirror } is ignored"),
                                   StartsWith("layer \"i\": image_data_param { scale } is ignored"),
                                   StartsWith("layer \"i\": image_data_param { mean_file } is ignored")));
  EXPECT_THAT(Warnings(R"(layer { name: "r" type: "ReLU" relu_param { } pooling_param { kernel_size: 2 } }
                          layer { name: "s" type: "Scale" scale_param { bias_filler { value: 1 } } }
                          layer { name: "t" type: "Scale" scale_param { bias_term: true bias_filler { value: 1 } } }
                          layer { name: "u" type: "Scale" bottom: "a" bottom: "b" scale_param { filler { } } }
                          layer { name: "v" type: "Bias" bottom: "a" bottom: "b" bias_param { filler { } } }
                          layer { name: "p" type: "InnerProduct" inner_product_param { bias_term: false bias_filler { } } }
                          layer { name: "c" type: "Convolution" convolution_param { bias_term: false bias_filler { } } }
                          layer { name: "w" type: "Embed" embed_param { bias_term: false bias_filler { value: 1 } } }
                          layer { name: "x" type: "Deconvolution" convolution_param { bias_term: true bias_filler { } } }
                          layer { name: "e" type: "Eltwise" eltwise_param { operation: MAX coeff: 1 coeff: 2 } }
                          layer { name: "f" type: "Eltwise" eltwise_param { coeff: 1 coeff: 2 } }
                          layer { name: "g" type: "Eltwise" eltwise_param { operation: PROD stable_prod_grad: false } }
                          layer { name: "i" type: "ImageData" transform_param { force_gray: true } })"),
              testing::ElementsAre(
                  "layer \"r\": pooling_param is ignored, as in Caffe: it does not belong to a layer of type ReLU",
                  StartsWith("layer \"s\": scale_param { bias_filler } is ignored"),
                  StartsWith("layer \"u\": scale_param { filler } is ignored, as in Caffe: nothing is learned"),
                  StartsWith("layer \"v\": bias_param { filler } is ignored, as in Caffe: nothing is learned"),
                  StartsWith("layer \"p\": inner_product_param { bias_filler } is ignored"),
                  StartsWith("layer \"c\": convolution_param { bias_filler } is ignored"),
                  StartsWith("layer \"w\": embed_param { bias_filler } is ignored"),
                  StartsWith("layer \"e\": eltwise_param { coeff } is ignored"),
                  StartsWith("layer \"g\": eltwise_param { stable_prod_grad: false } is ignored"),
                  StartsWith("layer \"i\": transform_param { force_color, force_gray } is ignored")));
  const std::string conv =
      "type: \"Convolution\" convolution_param { num_output: 2 kernel_size: 1 weight_filler { type: "
      "\"xavier\" std: 0.1 } bias_filler { type: \"constant\" value: 1 } } }";
  EXPECT_THAT(Warnings("layer { name: \"a\" " + conv + " layer { name: \"b\" " + conv + " layer { name: \"c\" " + conv),
              testing::ElementsAre("layer \"a\" and 2 more: weight_filler { std } is ignored, as in Caffe: a filler of "
                                   "type \"xavier\" has none"));
}

TEST(NetWarnings, NameAPhaseThatChangesNothing) {
  EXPECT_THAT(
      Warnings(R"(layer { name: "r" type: "ReLU" phase: TEST } layer { name: "i" type: "InnerProduct" phase: TRAIN }
                  layer { name: "p" type: "Pooling" phase: TEST pooling_param { pool: MAX } }
                  layer { name: "a" type: "Accuracy" phase: TEST include { phase: TEST } }
                  layer { name: "d" type: "Dropout" phase: TRAIN } layer { name: "n" type: "BatchNorm" phase: TEST }
                  layer { name: "m" type: "BatchNorm" phase: TRAIN }
                  layer { name: "g" type: "BatchNorm" phase: TRAIN batch_norm_param { use_global_stats: true } })"),
      testing::ElementsAre("layer \"r\" and 3 more: phase is ignored, as in Caffe: it computes the same in both; "
                           "include { phase: ... } says which it is in",
                           StartsWith("layer \"m\": phase: TRAIN is ignored in tests, which take the averages")));
}

TEST(Registry, ALayersOwnPhase) {
  const auto batch_statistics = [](const std::string& fields) {
    return LayerUnderTest(R"(name: "n" type: "BatchNorm" bottom: "a" top: "a" )" + fields)->uses_batch_statistics();
  };
  EXPECT_TRUE(batch_statistics(""));
  EXPECT_TRUE(batch_statistics("phase: TRAIN"));
  EXPECT_FALSE(batch_statistics("phase: TEST"));
  EXPECT_TRUE(batch_statistics("phase: TEST batch_norm_param { use_global_stats: false }"));
  EXPECT_FALSE(batch_statistics("phase: TRAIN batch_norm_param { use_global_stats: true }"));
}

TEST(Registry, ATableCanBeExtended) {
  LayerType louder = *LayerTypes::BuiltIn().Find("ReLU");
  louder.name = "Louder";
  const LayerTypes types = LayerTypes::BuiltIn().With(louder);
  const caffe::LayerParameter param = ParseLayer(R"(name: "x" type: "Louder" bottom: "a" top: "a")");
  EXPECT_TRUE(LayerTraits::Create(param, types).ok());
  EXPECT_FALSE(LayerTraits::Create(param, LayerTypes::BuiltIn()).ok());
  louder.in_place = false;
  EXPECT_FALSE(LayerTraits::Create(param, types.With(louder)).ok()) << "the later row of a name counts";
}

TEST(Registry, LayersLearnUnlessAllTheirMultipliersAreZero) {
  const auto learns = [](const std::string& more) {
    return LayerUnderTest(R"(name: "x" type: "InnerProduct" bottom: "a" top: "b" )" + more)->learns();
  };
  const std::string product = "inner_product_param { num_output: 4 } ";
  EXPECT_TRUE(learns(product));
  EXPECT_TRUE(learns(product + "param { lr_mult: 0 }")) << "the bias does";
  EXPECT_FALSE(learns(product + "param { lr_mult: 0 } param { lr_mult: 0 }"));
  EXPECT_FALSE(learns("inner_product_param { num_output: 4 bias_term: false } param { lr_mult: 0 }"));
  EXPECT_FALSE(LayerUnderTest(R"(name: "r" type: "ReLU" bottom: "a" top: "b")")->learns());
}

TEST(Registry, EveryLayerNeedsAName) {
  EXPECT_EQ(CreateError(R"(type: "ReLU" bottom: "a" top: "b")"), "a layer of type \"ReLU\" has no name");
}

TEST(Registry, BottomsAndTopsAreCounted) {
  EXPECT_EQ(CreateError(R"(name: "r" type: "ReLU" bottom: "a" bottom: "b" top: "c")"),
            "layer \"r\": has 2 bottoms; ReLU takes 1");
  EXPECT_EQ(CreateError(R"(name: "c" type: "Convolution" bottom: "a" bottom: "b" top: "c")"),
            "layer \"c\": has 2 bottoms; Convolution takes 1, or several with a top for each");
  EXPECT_EQ(CreateError(R"(name: "e" type: "Eltwise" bottom: "a" top: "c")"),
            "layer \"e\": has 1 bottoms; Eltwise takes at least 2");
  EXPECT_EQ(CreateError(R"(name: "r" type: "ReLU" bottom: "a")"), "layer \"r\": has 0 tops; ReLU takes 1");
  EXPECT_EQ(CreateError(R"(name: "p" type: "Pooling" bottom: "a" top: "b" top: "mask")"),
            "layer \"p\": a second top (which of the bottom's values each maximum is) is not supported: no layer of "
            "Caffe's reads it");
  EXPECT_EQ(CreateError(R"(name: "l" type: "SoftmaxWithLoss" bottom: "a" bottom: "b" top: "c" top: "d" top: "e")"),
            "layer \"l\": has 3 tops; SoftmaxWithLoss takes 0 to 2");
}

TEST(Registry, WhatIsKnownButNotSupportedIsRefusedByName) {
  const std::string relu = R"(name: "r" type: "ReLU" bottom: "a" top: "b" )";
  EXPECT_THAT(CreateError(relu + "propagate_down: false propagate_down: true"),
              HasSubstr("has 1 bottoms and 2 propagate_down values"));
  EXPECT_THAT(CreateError(relu + "param { lr_mult: 1 }"),
              HasSubstr("1 param entries; expected at most 0, one for each"));
  EXPECT_EQ(CreateError(R"(name: "c" type: "Convolution" bottom: "x" top: "c" param { } param { }
                           convolution_param { num_output: 4 kernel_size: 1 bias_term: false })"),
            "layer \"c\": has 2 param entries; expected at most 1, one for each learnable blob");
}

TEST(Registry, LossWeights) {
  const std::string relu = R"(name: "r" type: "ReLU" bottom: "a" top: "b" )";
  EXPECT_EQ(CreateError(relu + "loss_weight: 1"), "");
  EXPECT_EQ(CreateError(relu + "loss_weight: 0"), "");
  EXPECT_THAT(CreateError(relu + "loss_weight: 1 loss_weight: 2"), HasSubstr("has 1 tops but 2 loss_weight values"));
  EXPECT_EQ(CreateError(relu + "loss_weight: nan"), "layer \"r\": loss_weight nan: expected a finite number");
  EXPECT_THAT(CreateError(R"(name: "s" type: "Silence" bottom: "a" loss_weight: 1)"), HasSubstr("has 0 tops but 1"));
  EXPECT_EQ(CreateError(R"(name: "a" type: "Accuracy" bottom: "a" bottom: "b" top: "c" loss_weight: 1)"),
            "layer \"a\": loss_weight 1: top 0 of Accuracy can have none, since nothing can learn by it");
  const std::string loss = R"(name: "l" type: "SoftmaxWithLoss" bottom: "a" bottom: "b" top: "c" top: "d" )";
  EXPECT_THAT(CreateError(loss + "loss_weight: 1"), HasSubstr("has 2 tops but 1 loss_weight values"));
  EXPECT_THAT(CreateError(loss + "loss_weight: 1 loss_weight: 1"), HasSubstr("top 1 of SoftmaxWithLoss can have none"));
  EXPECT_EQ(CreateError(loss + "loss_weight: 0.3 loss_weight: 0"), "");
}

TEST(Registry, OnlyLayersThatCanWorkInPlace) {
  EXPECT_EQ(CreateError(R"(name: "s" type: "Pooling" bottom: "a" top: "a" pooling_param { kernel_size: 1 })"),
            "layer \"s\": bottom and top are both \"a\", but Pooling cannot work in place");
  EXPECT_THAT(CreateError(R"(name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "b")"), HasSubstr("in place"));
}

TEST(Registry, LayersRefuseTheirOwnFieldsByName) {
  const std::string dropout = R"(name: "d" type: "Dropout" bottom: "a" top: "b" )";
  EXPECT_THAT(CreateError(dropout + "dropout_param { scale_train: false }"), HasSubstr("scale_train: false"));
  EXPECT_THAT(CreateError(dropout + "dropout_param { dropout_ratio: 1.5 }"), HasSubstr("dropout_ratio 1.5 is not in"));
  EXPECT_THAT(CreateError(dropout + "phase: TRAIN dropout_param { dropout_ratio: 1 }"),
              HasSubstr("in training it would drop all values"));
  EXPECT_EQ(CreateError(dropout + "dropout_param { dropout_ratio: 1 }"), "") << "a test passes its input on";
  const std::string accuracy = R"(name: "a" type: "Accuracy" bottom: "x" bottom: "l" top: "t" )";
  EXPECT_THAT(CreateError(accuracy + "top: \"per_class\""), HasSubstr("accuracy of each class"));
  EXPECT_THAT(CreateError(accuracy + "accuracy_param { top_k: 0 }"), HasSubstr("top_k must be 1 or more"));
  const std::string concat = R"(name: "c" type: "Concat" bottom: "x" bottom: "y" top: "t" )";
  EXPECT_THAT(CreateError(concat + "concat_param { axis: 1 concat_dim: 1 }"), HasSubstr("both axis and concat_dim"));
  const std::string eltwise = R"(name: "e" type: "Eltwise" bottom: "x" bottom: "y" top: "t" )";
  EXPECT_THAT(CreateError(eltwise + "eltwise_param { coeff: 1 }"), HasSubstr("1 coeff values for 2 bottoms"));
  EXPECT_THAT(CreateError(eltwise + "eltwise_param { operation: PROD coeff: 1 coeff: 2 }"),
              HasSubstr("for operation SUM"));
  EXPECT_EQ(CreateError(eltwise + "eltwise_param { operation: MAX coeff: 1 coeff: 2 }"), "") << "as in Caffe";
  EXPECT_EQ(CreateError(eltwise + "eltwise_param { operation: PROD stable_prod_grad: false }"), "");
  EXPECT_THAT(CreateError(R"(name: "i" type: "Input" top: "a" top: "b" top: "c" input_param { shape { dim: 1 }
                             shape { dim: 2 } })"),
              HasSubstr("has 3 tops and 2 input_param shapes"));
  EXPECT_THAT(CreateError(R"(name: "i" type: "Input" top: "a" input_param { shape { dim: 1 dim: 0 } })"),
              HasSubstr("input shape [1 0]"));
}

TEST(Registry, ActivationsRefuseNumbersThatMakeNoFunction) {
  const auto layer = [](const std::string& type, const std::string& fields) {
    return CreateError(R"(name: "f" bottom: "x" top: "x" type: ")" + type + "\" " + fields);
  };
  for (const char* base : {"0", "-2", "-0.5", "nan", "inf"}) {
    EXPECT_EQ(layer("Exp", std::string("exp_param { base: ") + base + " }"),
              std::string("layer \"f\": exp_param { base: ") + base + " }: expected a number above 0, or -1 for e");
    EXPECT_EQ(layer("Log", std::string("log_param { base: ") + base + " }"),
              std::string("layer \"f\": log_param { base: ") + base +
                  " }: expected a number above 0 that is not 1, or -1 for e");
  }
  EXPECT_EQ(layer("Exp", "exp_param { base: 1 }"), "");
  EXPECT_THAT(layer("Log", "log_param { base: 1 }"), HasSubstr("expected a number above 0 that is not 1"));
  EXPECT_EQ(layer("Clip", ""), "layer \"f\": has no clip_param; expected clip_param { min: A max: B }");
  EXPECT_EQ(layer("Clip", "clip_param { min: 1 max: 0.5 }"),
            "layer \"f\": clip_param { min: 1 max: 0.5 }: expected a max of at least min");
  EXPECT_THAT(layer("Clip", "clip_param { min: nan max: 1 }"), HasSubstr("expected a max of at least min"));
  EXPECT_EQ(layer("Clip", "clip_param { min: 1 max: 1 }"), "");
  EXPECT_EQ(layer("Clip", "clip_param { min: -inf max: 1 }"), "");
  EXPECT_EQ(layer("ELU", "elu_param { alpha: nan }"),
            "layer \"f\": elu_param { alpha: nan }: expected a finite number");
  for (const auto& [type, param, field] :
       std::vector<std::array<const char*, 3>>{{"ReLU", "relu_param", "negative_slope"},
                                               {"Power", "power_param", "power"},
                                               {"Power", "power_param", "scale"},
                                               {"Power", "power_param", "shift"},
                                               {"Exp", "exp_param", "scale"},
                                               {"Exp", "exp_param", "shift"},
                                               {"Log", "log_param", "scale"},
                                               {"Log", "log_param", "shift"},
                                               {"Threshold", "threshold_param", "threshold"},
                                               {"Swish", "swish_param", "beta"}}) {
    const std::string set = std::string(param) + " { " + field + ": ";
    EXPECT_EQ(layer(type, set + "inf }"), "layer \"f\": " + set + "inf }: expected a finite number");
    EXPECT_EQ(layer(type, set + "-0.5 }"), "");
  }
}

TEST(Registry, SilenceHasNoTops) {
  EXPECT_EQ(CreateError(R"(name: "s" type: "Silence" bottom: "a" top: "b")"),
            "layer \"s\": has 1 tops; Silence takes 0");
  EXPECT_EQ(CreateError(R"(name: "s" type: "Silence")"), "layer \"s\": has 0 bottoms; Silence takes at least 1");
}

TEST(Registry, CosinesHaveNoBias) {
  const auto product = [](const std::string& fields) {
    return CreateError(
        R"(name: "head" type: "InnerProduct" bottom: "x" top: "t" inner_product_param { num_output: 4 )" + fields +
        " }");
  };
  EXPECT_EQ(product("normalize: true bias_term: false"), "");
  EXPECT_EQ(product("normalize: false"), "");
  for (const char* bias : {"", " bias_term: true"}) {
    EXPECT_EQ(product(std::string("normalize: true") + bias),
              "layer \"head\": inner_product_param { normalize: true } has no bias; expected bias_term: false");
  }
}

TEST(Registry, CosinesAndSamplesHaveARowOfWeightsForEachOutput) {
  const auto product = [](const std::string& fields) {
    return CreateError(
        R"(name: "head" type: "InnerProduct" bottom: "x" top: "t" inner_product_param { num_output: 4 bias_term: false )" +
        fields + " }");
  };
  EXPECT_EQ(product("transpose: true normalize: true"),
            "layer \"head\": inner_product_param { transpose: true } does not go with normalize, which needs a row of "
            "weights for each output; expected false");
  EXPECT_THAT(product("transpose: true sample_rate: 0.5"), HasSubstr("does not go with sample_rate"));
  EXPECT_EQ(product("axis: 2 sample_rate: 0.5"),
            "layer \"head\": inner_product_param { axis: 2 } does not go with sample_rate; expected 1");
  EXPECT_EQ(product("transpose: false axis: 1 normalize: true"), "");
}

TEST(Registry, SamplesOfClassesAreAPartAndHaveNoBias) {
  const auto product = [](const std::string& fields) {
    return CreateError(
        R"(name: "head" type: "InnerProduct" bottom: "x" top: "t" inner_product_param { num_output: 4 )" + fields +
        " }");
  };
  for (const char* sound :
       {"sample_rate: 1", "sample_rate: 0.1 bias_term: false", "sample_rate: 1e-3 bias_term: false normalize: true"}) {
    EXPECT_EQ(product(sound), "") << sound;
  }
  for (const char* rate : {"0", "-0.5", "1.5", "nan"}) {
    EXPECT_EQ(product(std::string("bias_term: false sample_rate: ") + rate),
              std::string("layer \"head\": inner_product_param { sample_rate: ") + rate +
                  " }: expected a number above 0, at most 1");
  }
  EXPECT_EQ(product("sample_rate: 0.5"),
            "layer \"head\": inner_product_param { sample_rate: 0.5 } has no bias; expected bias_term: false");
}

TEST(Registry, MarginsOutOfRangeAreRefused) {
  const auto loss = [](const std::string& margin) {
    return CreateError(R"(name: "l" type: "SoftmaxWithLoss" bottom: "x" bottom: "y" top: "t" margin_param { )" +
                       margin + " }");
  };
  for (const char* sound : {"", "scale: 30 angle: 0.5", "cosine: 0.35", "angle: 3.14159265", "cosine: -0.1"}) {
    EXPECT_EQ(loss(sound), "") << sound;
  }
  EXPECT_EQ(loss("scale: 0"), "layer \"l\": margin_param { scale: 0 }: expected a number above 0");
  for (const char* scale : {"scale: -1", "scale: nan", "scale: inf"}) {
    EXPECT_THAT(loss(scale), HasSubstr("expected a number above 0")) << scale;
  }
  EXPECT_EQ(loss("angle: -0.5"), "layer \"l\": margin_param { angle: -0.5 }: expected 0 to pi");
  for (const char* angle : {"angle: 3.2", "angle: nan", "angle: inf"}) {
    EXPECT_THAT(loss(angle), HasSubstr("expected 0 to pi")) << angle;
  }
  for (const char* cosine : {"cosine: nan", "cosine: inf", "cosine: -inf"}) {
    EXPECT_THAT(loss(cosine), HasSubstr("expected a finite number")) << cosine;
  }
  EXPECT_EQ(CreateError(R"(name: "s" type: "Softmax" bottom: "x" top: "t" margin_param { })"),
            "layer \"s\": margin_param does not belong to a layer of type Softmax");
}

TEST(Registry, DataRefusesItsOwnFieldsByName) {
  const auto data = [](const std::string& more, const std::string& transform = "") {
    return CreateError(R"(name: "data" type: "Data" top: "x" top: "l" data_param { source: "db" batch_size: 8 )" +
                       more + " } " + transform);
  };
  EXPECT_EQ(data(""), "");
  EXPECT_EQ(data("rand_skip: 3 force_encoded_color: true scale: 0.5 mirror: true crop_size: 4"), "");
  EXPECT_EQ(data("scale: 0.5", "transform_param { mirror: true }"), "");
  EXPECT_EQ(data("scale: 0.5 crop_size: 5", "transform_param { scale: 1 crop_size: 6 }"), "") << "the latter count";
  EXPECT_THAT(data("", R"(transform_param { mean_file: "m" mean_value: 1 })"),
              HasSubstr("both mean_file and mean_value"));
  EXPECT_THAT(data("", "transform_param { force_color: true force_gray: true }"), HasSubstr("both force_color and"));
  EXPECT_THAT(data("force_encoded_color: true", "transform_param { force_gray: true }"), HasSubstr("both force_color"));
  EXPECT_THAT(CreateError(R"(name: "data" type: "Data" top: "x" data_param { batch_size: 8 })"), HasSubstr("source"));
  EXPECT_THAT(CreateError(R"(name: "data" type: "Data" top: "x" data_param { source: "db" })"),
              HasSubstr("batch_size"));
}

TEST(Registry, ImageDataRefusesItsOwnFieldsByName) {
  const auto images = [](const std::string& more, const std::string& transform = "") {
    return CreateError(R"(name: "data" type: "ImageData" top: "x" top: "l" image_data_param { )" + more + " } " +
                       transform);
  };
  const std::string list = R"(source: "list" )";
  EXPECT_EQ(images(list + R"(batch_size: 2 rand_skip: 3 shuffle: true new_height: 4 new_width: 5 is_color: false
                             root_folder: "/data/")"),
            "");
  EXPECT_EQ(images(list + "scale: 0.5 mirror: true crop_size: 4"), "");
  EXPECT_EQ(images(""), "layer \"data\": image_data_param has no source");
  EXPECT_THAT(images(list + "batch_size: 0"), HasSubstr("image_data_param { batch_size: 0 }: expected 1 to"));
  EXPECT_THAT(images(list + "new_height: 4"), HasSubstr("new_height 4 and new_width 0: expected both or neither"));
  EXPECT_THAT(images(list + "new_height: 3000000000 new_width: 3000000000"), HasSubstr("is too large"));
  EXPECT_EQ(images(list + "mirror: true", "transform_param { mirror: true }"), "");
  EXPECT_THAT(images(list, R"(transform_param { mean_file: "m" mean_value: 1 })"), HasSubstr("both mean_file and"));
}

TEST(Registry, Hdf5DataRefusesItsOwnFieldsByName) {
  const auto rows = [](const std::string& tops, const std::string& param, const std::string& more = "") {
    return CreateError("name: \"data\" type: \"HDF5Data\" top: \"x\" " + tops + "hdf5_data_param { " + param + " } " +
                       more);
  };
  const std::string good = R"(source: "list" batch_size: 8 shuffle: true)";
  EXPECT_EQ(rows("", good), "");
  EXPECT_EQ(rows("", "batch_size: 8"), "layer \"data\": hdf5_data_param has no source");
  EXPECT_THAT(rows("", R"(source: "list")"), HasSubstr("hdf5_data_param { batch_size: 0 }: expected 1 to"));
  EXPECT_EQ(rows(R"(top: "l" top: "m" )", good), "");
  EXPECT_THAT(rows("", good, "transform_param { scale: 2 }"),
              HasSubstr("transform_param does not belong to a layer of"));
}

TEST(Registry, TheBatchSizeOfADummyDataThatWasNotChecked) {
  const auto batch_size = [](const std::string& text) {
    return LayerTypes::BuiltIn().BatchSize(ParseLayer("name: \"data\" type: \"DummyData\" " + text));
  };
  EXPECT_EQ(batch_size("top: \"x\" dummy_data_param { shape { dim: 7 dim: 3 } }"), 7);
  EXPECT_EQ(batch_size(""), -1);
  EXPECT_EQ(batch_size("top: \"x\" dummy_data_param { num: 3 num: 4 }"), -1);
}

TEST(Registry, DummyDataRefusesItsOwnFieldsByName) {
  const auto dummy = [](const std::string& param, const std::string& tops = R"(top: "x" top: "l" )") {
    return CreateError("name: \"data\" type: \"DummyData\" " + tops + "dummy_data_param { " + param + " }");
  };
  const std::string shapes = "shape { dim: 4 dim: 3 } shape { dim: 4 } ";
  EXPECT_EQ(dummy(shapes + "data_filler { } data_filler { }"), "");
  EXPECT_EQ(dummy("num: 4 channels: 3 height: 1 width: 1", R"(top: "x" )"), "");
  EXPECT_THAT(dummy(""), HasSubstr("has 0 dummy_data_param shapes for 2 tops; give one for each top, or one for all"));
  EXPECT_EQ(dummy("shape { dim: 4 dim: 3 }"), "") << "three labels in a row";
  EXPECT_THAT(dummy("shape { dim: 4 dim: 3 } shape { dim: 3 }"),
              HasSubstr("top \"l\" has the shape [3]; expected [4] or [4, ...], as many rows"));
  EXPECT_THAT(dummy("shape { dim: 4 dim: 0 }"), HasSubstr("top \"x\" has the shape [4 0]; expected 1 to 4 dims"));
  EXPECT_THAT(dummy("shape { dim: 4 dim: -1 }"), HasSubstr("expected 1 to 4 dims"));
  EXPECT_THAT(dummy("shape { }"), HasSubstr("expected 1 to 4 dims"));
  EXPECT_THAT(dummy("shape { dim: 4 dim: 1 dim: 1 dim: 1 dim: 1 }"), HasSubstr("expected 1 to 4 dims"));
  EXPECT_THAT(dummy("shape { dim: 2147483647 dim: 2147483647 }"), HasSubstr("not too large"));
  EXPECT_THAT(dummy("num: 4 channels: 3 height: 1"),
              HasSubstr("num, channels, height and width: expected one value of"));
  EXPECT_THAT(dummy(shapes + "num: 4"), HasSubstr("has both shape and num"));
  EXPECT_THAT(dummy(shapes + "data_filler { } data_filler { } data_filler { }"),
              HasSubstr("3 data_filler entries for 2"));
  EXPECT_THAT(dummy(shapes + R"(data_filler { type: "bilinear" })"),
              HasSubstr("data_filler: type \"bilinear\" does not fit shape [4 3]"));
  EXPECT_THAT(dummy(shapes, R"(top: "x" top: "l" top: "m" )"), HasSubstr("2 dummy_data_param shapes for 3 tops"));
}

}  // namespace
}  // namespace hp::test
