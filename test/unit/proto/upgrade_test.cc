#include "proto/upgrade/upgrade.h"

#include "proto/hash.h"
#include "proto/reshape_batch.h"
#include "proto/text.h"
#include "test/unit/proto/file_test.h"

#include <string>
#include <vector>

namespace hp {
namespace {

// One net in the three forms.
constexpr char kV0[] = R"(name: "n"
layers { layer { name: "data" type: "data" source: "db" batchsize: 4 cropsize: 8 mirror: true scale: 0.5 rand_skip: 3 }
  top: "data" top: "label" }
layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 6 kernelsize: 5 stride: 2 group: 1 biasterm: true
    weight_filler { type: "xavier" } blobs_lr: 1. blobs_lr: 2. weight_decay: 1. weight_decay: 0. }
  bottom: "pad1" top: "conv1" }
layers { layer { name: "relu1" type: "relu" } bottom: "conv1" top: "conv1" }
layers { layer { name: "norm1" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.5 } bottom: "conv1" top: "norm1" }
layers { layer { name: "pool1" type: "pool" pool: AVE kernelsize: 2 stride: 2 } bottom: "norm1" top: "pool1" }
layers { layer { name: "drop1" type: "dropout" dropout_ratio: 0.25 } bottom: "pool1" top: "pool1" }
layers { layer { name: "ip" type: "innerproduct" num_output: 3 bias_filler { value: 1 } } bottom: "pool1" top: "ip" }
layers { layer { name: "loss" type: "softmax_loss" } bottom: "ip" bottom: "label" }
)";
constexpr char kV1[] = R"(name: "n"
layers { name: "data" type: DATA top: "data" top: "label"
  data_param { source: "db" batch_size: 4 crop_size: 8 mirror: true scale: 0.5 rand_skip: 3 } }
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
  weight_decay: 0 convolution_param { num_output: 6 kernel_size: 5 stride: 2 pad: 2 group: 1 bias_term: true
    weight_filler { type: "xavier" } } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "norm1" type: LRN bottom: "conv1" top: "norm1" lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 } }
layers { name: "pool1" type: POOLING bottom: "norm1" top: "pool1" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layers { name: "drop1" type: DROPOUT bottom: "pool1" top: "pool1" dropout_param { dropout_ratio: 0.25 } }
layers { name: "ip" type: INNER_PRODUCT bottom: "pool1" top: "ip"
  inner_product_param { num_output: 3 bias_filler { value: 1 } } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip" bottom: "label" }
)";
constexpr char kToday[] = R"(name: "n"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "db" batch_size: 4 rand_skip: 3 }
  transform_param { crop_size: 8 mirror: true scale: 0.5 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 decay_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 6 kernel_size: 5 stride: 2 pad: 2 group: 1
    bias_term: true weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 } }
layer { name: "pool1" type: "Pooling" bottom: "norm1" top: "pool1" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "drop1" type: "Dropout" bottom: "pool1" top: "pool1" dropout_param { dropout_ratio: 0.25 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool1" top: "ip"
  inner_product_param { num_output: 3 bias_filler { value: 1 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }
)";

caffe::NetParameter Parse(const std::string& text) {
  caffe::NetParameter net;
  EXPECT_TRUE(ParseTextProto(text, "net.prototxt", &net).ok());
  return net;
}

caffe::NetParameter Upgraded(const std::string& text) {
  caffe::NetParameter net = Parse(text);
  const auto upgrade = UpgradeNet(&net);
  EXPECT_TRUE(upgrade.ok()) << upgrade.status();
  return net;
}

class UpgradeTest : public test::FileTest {
 protected:
  /// What ReadNet says of a file of this text, without the folder.
  std::string ErrorOf(const std::string& text) {
    const auto net = ReadNet(Write("net.prototxt", text));
    EXPECT_FALSE(net.ok());
    const std::string& message = net.status().message();
    return message.rfind(folder_ + "/", 0) == 0 ? message.substr(folder_.size() + 1) : message;
  }
};

TEST_F(UpgradeTest, AllFormsOfANetAreTheSameNet) {
  const caffe::NetParameter today = Upgraded(kToday);
  EXPECT_EQ(Upgraded(kV1).DebugString(), today.DebugString());
  EXPECT_EQ(Upgraded(kV0).DebugString(), today.DebugString());
  EXPECT_EQ(today.DebugString(), Parse(kToday).DebugString());
  EXPECT_EQ(NetHash(Upgraded(kV0)), NetHash(today));
}

TEST_F(UpgradeTest, FilesOfAllFormsAreRead) {
  for (const char* text : {kV0, kV1, kToday}) {
    const auto net = ReadNet(Write("net.prototxt", text));
    ASSERT_TRUE(net.ok()) << net.status();
    EXPECT_EQ(net->layer_size(), 8);
    EXPECT_EQ(net->layers_size(), 0);
  }
  const auto solver = ReadSolver(Write("solver.prototxt", "net_param {\n" + std::string(kV1) + "}\n"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  caffe::NetParameter inside = solver->net_param();
  for (caffe::LayerParameter& layer : *inside.mutable_layer()) layer.clear_place();
  EXPECT_EQ(inside.DebugString(), Parse(kToday).DebugString());
}

TEST_F(UpgradeTest, SaysWhichFormsItFoundAndWhereLayersStood) {
  caffe::NetParameter net = Parse(kV0);
  const auto upgrade = UpgradeNet(&net);
  ASSERT_TRUE(upgrade.ok());
  EXPECT_EQ(upgrade->forms, std::vector<std::string>{"\"layers\" of the form of 2013"});
  ASSERT_EQ(upgrade->origins.size(), 8u);
  EXPECT_EQ(upgrade->origins[1].field, NetUpgrade::Origin::kLayers);
  EXPECT_EQ(upgrade->origins[1].index, 2);  // behind the padding
  net = Parse(kToday);
  EXPECT_TRUE(UpgradeNet(&net)->forms.empty());
}

TEST_F(UpgradeTest, FieldsOf2013FindTheirPlaces) {
  const auto layer = [](const std::string& old) {
    caffe::LayerParameter upgraded = Upgraded("layers { layer { name: 'a' " + old + " } }").layer(0);
    upgraded.clear_name();
    upgraded.clear_type();
    return upgraded.ShortDebugString();
  };
  EXPECT_EQ(layer("type: 'images' source: 'a \\'b\\'' batchsize: 2 new_height: 5 new_width: 6 shuffle_images: true "
                  "rand_skip: 4 meanfile: 'm' mirror: true"),
            "transform_param { mirror: true mean_file: \"m\" } image_data_param { source: \"a \\'b\\'\" batch_size: 2 "
            "rand_skip: 4 shuffle: true new_height: 5 new_width: 6 }");
  EXPECT_EQ(layer("type: 'window_data' source: 'w' det_fg_threshold: 0.25 det_bg_threshold: 0.5 det_fg_fraction: 0.1 "
                  "det_context_pad: 3 det_crop_mode: 'square' cropsize: 7 scale: 0.1"),
            "transform_param { scale: 0.1 crop_size: 7 } window_data_param { source: \"w\" fg_threshold: 0.25 "
            "bg_threshold: 0.5 fg_fraction: 0.1 context_pad: 3 crop_mode: \"square\" }");
  EXPECT_EQ(layer("type: 'hdf5_output' hdf5_output_param { file_name: 'f' }"),
            "hdf5_output_param { file_name: \"f\" }");
  EXPECT_EQ(layer("type: 'hdf5_data' source: 's' batchsize: 9"), "hdf5_data_param { source: \"s\" batch_size: 9 }");
  EXPECT_EQ(layer("type: 'infogain_loss' source: 's'"), "infogain_loss_param { source: \"s\" }");
  EXPECT_EQ(layer("type: 'concat' concat_dim: 0"), "concat_param { concat_dim: 0 }");
  EXPECT_EQ(layer("type: 'lrn' k: 2"), "lrn_param { k: 2 }");
  EXPECT_EQ(layer("type: 'innerproduct' biasterm: false blobs { data: 3 }"),
            "blobs { data: 3 } inner_product_param { bias_term: false }");
}

TEST_F(UpgradeTest, SharedParametersAndWeightsOfV1AreKept) {
  const caffe::NetParameter net = Upgraded(
      "layers { name: 'a' type: INNER_PRODUCT param: 'w' param: 'b' blob_share_mode: PERMISSIVE blobs_lr: 3 "
      "loss_weight: 2 include { phase: TEST } blobs { data: 5 } }");
  const caffe::LayerParameter& layer = net.layer(0);
  ASSERT_EQ(layer.param_size(), 2);
  EXPECT_EQ(layer.param(0).name(), "w");
  EXPECT_EQ(layer.param(0).share_mode(), caffe::ParamSpec::PERMISSIVE);
  EXPECT_EQ(layer.param(0).lr_mult(), 3);
  EXPECT_EQ(layer.param(1).name(), "b");
  EXPECT_EQ(layer.loss_weight(0), 2);
  EXPECT_EQ(layer.include(0).phase(), caffe::TEST);
  EXPECT_EQ(layer.blobs(0).data(0), 5);
}

TEST_F(UpgradeTest, InputFieldsBecomeTheFirstLayer) {
  const caffe::NetParameter net = Upgraded(
      "input: 'a' input: 'b' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 9 input_dim: 2 input_dim: 1 "
      "input_dim: 1 input_dim: 1 layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' }");
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.input_size() + net.input_dim_size(), 0);
  EXPECT_EQ(net.layer(0).DebugString(),
            Parse("layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: 1 dim: 3 dim: 8 "
                  "dim: 9 } shape { dim: 2 dim: 1 dim: 1 dim: 1 } } }")
                .layer(0)
                .DebugString());
  EXPECT_EQ(Upgraded("input: 'a' input_shape { dim: 5 } layers { name: 'r' type: RELU bottom: 'a' top: 'r' }")
                .layer(0)
                .input_param()
                .shape(0)
                .dim(0),
            5);
}

// As Caffe reads them since 2017.
TEST_F(UpgradeTest, TheThreeBlobsOfABatchNormAreFrozen) {
  const std::string layer = "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' ";
  EXPECT_EQ(Upgraded(layer + "param { name: 'm' lr_mult: 1 } param { } param { decay_mult: 3 } }").DebugString(),
            Parse(layer + "param { name: 'm' lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 } "
                          "param { lr_mult: 0 decay_mult: 0 } }")
                .DebugString());
  EXPECT_EQ(Upgraded(layer + "param { lr_mult: 1 } param { } param { } }").layer(0).param_size(), 0);
  EXPECT_EQ(Upgraded(layer + "param { lr_mult: 1 } }").layer(0).param(0).lr_mult(), 1);
  for (const bool learns : {false, true}) {
    caffe::NetParameter net = Parse(layer + (learns ? "param { } " : "param { lr_mult: 0 } ") +
                                    "param { lr_mult: 0 } param { lr_mult: 0 } }");
    const auto upgrade = UpgradeNet(&net);
    ASSERT_TRUE(upgrade.ok()) << upgrade.status();
    EXPECT_EQ(std::ssize(upgrade->forms), learns ? 1 : 0);
  }
}

TEST_F(UpgradeTest, ABatchNormOfNvidiasIsTwoLayers) {
  const caffe::NetParameter net = Upgraded(
      "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' include { phase: TRAIN } param { } param { } param { } "
      "param { lr_mult: 5 } param { lr_mult: 6 } batch_norm_param { eps: 0.1 scale_bias: true scale_filler { value: 2 "
      "} } }"
      "layer { name: 'r' type: 'ReLU' bottom: 'n' top: 'n' }");
  ASSERT_EQ(net.layer_size(), 3);
  EXPECT_EQ(
      net.layer(0).DebugString(),
      Parse("layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' include { phase: TRAIN } batch_norm_param { "
            "eps: 0.1 } }")
          .layer(0)
          .DebugString());
  EXPECT_EQ(
      net.layer(1).DebugString(),
      Parse("layer { name: 'n_scale' type: 'Scale' bottom: 'n' top: 'n' include { phase: TRAIN } param { lr_mult: "
            "5 } param { lr_mult: 6 } scale_param { bias_term: true filler { value: 2 } } }")
          .layer(0)
          .DebugString());
  EXPECT_EQ(net.layer(2).name(), "r");
}

TEST_F(UpgradeTest, InputsOfOldWeightsNeedNoShapes) {
  const std::string weights = "layer { name: 'p' type: 'InnerProduct' blobs { data: 1 } }";
  EXPECT_EQ(Upgraded("input: 'a' " + weights).DebugString(), Parse(weights).DebugString());
  EXPECT_EQ(Upgraded("input: 'a' input_shape { dim: 2 } " + weights).layer_size(), 2);
}

TEST_F(UpgradeTest, IntelsEnginesGo) {
  caffe::NetParameter net = Upgraded("engine: 'MKLDNN' layer { name: 'r' type: 'ReLU' engine: 'MKL2017' }");
  EXPECT_EQ(net.DebugString(), Parse("layer { name: 'r' type: 'ReLU' }").DebugString());
  // Caffe knows its own alone, and refuses a file with another.
  for (const char* const parameter : {"convolution_param", "lrn_param", "pooling_param", "relu_param"}) {
    const auto layer = [&](const std::string& field) {
      return "layer { name: 'a' " + std::string(parameter) + " { " + field + " } }";
    };
    net = Parse(layer("engine: MKL2017"));
    const auto upgrade = UpgradeNet(&net);
    ASSERT_TRUE(upgrade.ok()) << upgrade.status();
    EXPECT_EQ(upgrade->forms, std::vector<std::string>{"engines of a fork of Caffe, which are left out"});
    EXPECT_EQ(net.DebugString(), Parse(layer("")).DebugString());
    EXPECT_EQ(Upgraded(layer("engine: CUDNN")).DebugString(), Parse(layer("engine: CUDNN")).DebugString());
  }
  for (const char* const parameter : {"batch_norm_param", "concat_param", "eltwise_param", "inner_product_param"}) {
    const std::string begin = "layer { name: 'n' " + std::string(parameter) + " { ";
    EXPECT_EQ(Upgraded(begin + "engine: CUDNN } }").DebugString(), Parse(begin + "} }").DebugString());
  }
  const std::string head = "net: '" + Write("net.prototxt", "layer { name: 'r' type: 'ReLU' }") + "'\n";
  const auto solver = ReadSolver(Write("s.prototxt", head + "engine: 'MKLDNN'"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  EXPECT_FALSE(solver->has_engine());
}

TEST_F(UpgradeTest, WhatIsLeftOverOfWindowsSaysNothing) {
  const std::string head = "layers { layer { name: 'd' type: 'data' source: 'db' batchsize: 4 ", tail = "} top: 'd' }";
  EXPECT_EQ(Upgraded(head + "det_fg_threshold: 0.5 det_crop_mode: 'warp' " + tail).DebugString(),
            Upgraded(head + tail).DebugString());
}

TEST_F(UpgradeTest, FaultsNameTheirPlace) {
  EXPECT_EQ(ErrorOf("\nlayer { name: 'a' type: 'ReLU' place: 'x:1' }"),
            "net.prototxt:2: unknown field \"place\" of layer \"a\"")
      << "reading alone sets it";
  EXPECT_EQ(ErrorOf("layer { name: 'a' type: 'ReLU' }\nlayers { name: 'b' type: RELU }"),
            "net.prototxt:2: the net has both \"layer\" and \"layers\" (the form of 2014); expected one of them");
  EXPECT_EQ(
      ErrorOf("name: 'n'\nlayers {\n name: 'a' }"),
      "net.prototxt:2: layer \"a\": an entry of \"layers\" without a type; expected type: CONVOLUTION or the like");
  EXPECT_EQ(ErrorOf("\n\nlayers { layer { name: 'a' type: 'convolution' } }"),
            "net.prototxt:3: layer \"a\": type \"convolution\" is no type of the form of 2013; expected conv, pool or "
            "the like");
  EXPECT_EQ(ErrorOf("layers { layer { name: 'a' type: 'relu' kernelsize: 3 } }"),
            "net.prototxt:1: layer \"a\": field \"kernelsize\" does not belong to a layer of type relu (of the form of "
            "2013)");
  EXPECT_EQ(ErrorOf("layers { name: 'a' type: RELU }\nlayers { layer { name: 'b' type: 'relu' } }"),
            "net.prototxt:1: layer \"a\": of the form of 2014 in a net of the form of 2013; expected one of them");
  EXPECT_EQ(ErrorOf("layers { layer { name: 'b' type: 'relu' } blobs_lr: 1 }"),
            "net.prototxt:1: layer \"b\": field \"blobs_lr\" stands beside the layer inside; expected it in there");
  EXPECT_EQ(
      ErrorOf("layers { layer { name: 'b' type: 'relu' } include { phase: TRAIN } }"),
      "net.prototxt:1: layer \"b\": field \"include\" is none of the form of 2013, beside the layer inside or in it; "
      "only nets of today's form can have it");
  EXPECT_EQ(ErrorOf("layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'x' top: 'p' }\n"
                    "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }"),
            "net.prototxt:2: layer \"r\": reads the padding layer \"p\"; expected that of a conv or pool layer without "
            "pad");
  EXPECT_EQ(ErrorOf("layers { layer { name: 'p' type: 'padding' pad: 1 } top: 'p' }"),
            "net.prototxt:1: layer \"p\": a padding layer has 0 bottoms and 1 tops; expected one of each");
  EXPECT_EQ(ErrorOf("input: 'a' input_dim: 1 layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' }"),
            "net.prototxt:1: the net has 1 input, 0 input_shape and 1 input_dim; expected one input_shape, or four "
            "input_dim, for each input");
  const std::string unknown = ErrorOf("\nlayers { name: 'a' type: CONV }");
  EXPECT_NE(unknown.find("net.prototxt:2:26: unknown value \"CONV\""), std::string::npos) << unknown;
}

TEST_F(UpgradeTest, NvidiasWarmUpIsIntels) {
  Write("net.prototxt", "layer { name: 'a' type: 'ReLU' }");
  const auto solver = ReadSolver(Write("s.prototxt", "net: 'net.prototxt' rampup_interval: 7 rampup_lr: 0.5"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  EXPECT_EQ(solver->warmup_iter(), 7);
  EXPECT_EQ(solver->warmup_start_lr(), 0.5f);
  EXPECT_FALSE(solver->has_rampup_interval() || solver->has_rampup_lr());
  EXPECT_NE(ReadSolver(Write("s.prototxt", "net: 'net.prototxt' rampup_lr: 1 warmup_iter: 2"))
                .status()
                .message()
                .find("s.prototxt:1: rampup_lr: a warm-up by rampup_interval"),
            std::string::npos);
}

TEST_F(UpgradeTest, SolverTypeBecomesType) {
  Write("net.prototxt", "layer { name: 'a' type: 'ReLU' }");
  for (const auto& [old, type] : {std::pair{"SGD", "SGD"},
                                  {"NESTEROV", "Nesterov"},
                                  {"ADAGRAD", "AdaGrad"},
                                  {"RMSPROP", "RMSProp"},
                                  {"ADADELTA", "AdaDelta"},
                                  {"ADAM", "Adam"}}) {
    const auto solver = ReadSolver(Write("s.prototxt", std::string("net: 'net.prototxt' solver_type: ") + old));
    ASSERT_TRUE(solver.ok()) << solver.status();
    EXPECT_EQ(solver->type(), type);
    EXPECT_FALSE(solver->has_solver_type()) << old;
  }
  const std::string path = Write("s.prototxt", "net: 'net.prototxt'\ntype: 'SGD'\nsolver_type: ADAM");
  EXPECT_EQ(ReadSolver(path).status().message(),
            path + ":3: solver_type: ADAM beside type: \"SGD\"; expected type alone, whose old form solver_type is");
  Write("s.prototxt", "net: 'net.prototxt'\nsolver_type: ADMA");
  const std::string unknown = ReadSolver(path).status().message();
  EXPECT_EQ(unknown.rfind(path + ":2:14: unknown value \"ADMA\"", 0), 0) << unknown;
}

TEST_F(UpgradeTest, FaultsOfANetInASolverNameTheirPlace) {
  const std::string path = Write("s.prototxt", "base_lr: 1\nnet_param {\n layers { name: 'a' }\n}");
  EXPECT_EQ(ReadSolver(path).status().message(),
            path + ":3: layer \"a\": an entry of \"layers\" without a type; expected type: CONVOLUTION or the like");
}

/// As NVIDIA's own layer understands it.
TEST(Upgrade, AFillerOfABatchNormsScaleMeansThatItHasOne) {
  const auto split = [](const std::string& fields) {
    return Upgraded("layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' batch_norm_param { " + fields + " } }");
  };
  EXPECT_EQ(split("").layer_size(), 1);
  EXPECT_EQ(split("scale_filler { value: 2 }").DebugString(),
            split("scale_bias: true scale_filler { value: 2 }").DebugString());
  const caffe::NetParameter net = split("bias_filler { value: 3 }");
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(1).scale_param().bias_filler().value(), 3);
}

/// Source: Caffe, src/caffe/util/upgrade_proto.cpp, UpgradeNetDataTransformation.
TEST(Upgrade, FieldsMoveFromTheParameterOfTheLayersOwnTypeAlone) {
  const auto transform = [](const std::string& layer) { return Upgraded("layers { " + layer + " }").layer(0); };
  EXPECT_EQ(transform("type: IMAGE_DATA image_data_param { crop_size: 5 }").transform_param().crop_size(), 5u);
  EXPECT_EQ(transform("type: WINDOW_DATA window_data_param { crop_size: 5 }").transform_param().crop_size(), 5u);
  EXPECT_FALSE(transform("type: DATA image_data_param { crop_size: 5 mirror: true }").has_transform_param());
  EXPECT_FALSE(transform("type: IMAGE_DATA data_param { scale: 5 }").has_transform_param());
}

TEST(Upgrade, DimsWithoutAnInputOrBesideAShapeSayNothing) {
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' }";
  EXPECT_EQ(HashMessage(Upgraded("input_dim: 3 input_shape { dim: 2 } " + relu)), HashMessage(Upgraded(relu)));
  const std::string four = "input: 'a' input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4 ";
  EXPECT_EQ(HashMessage(Upgraded(four + "input_dim: 5 " + relu)), HashMessage(Upgraded(four + relu)));
  EXPECT_EQ(HashMessage(Upgraded("input: 'a' input_shape { dim: 2 dim: 5 } input_dim: 7 " + relu)),
            HashMessage(Upgraded("input: 'a' input_shape { dim: 2 dim: 5 } " + relu)));
}

TEST(Upgrade, AReshapeMaySayTheBatchOfTheSources) {
  const auto first_dim = [](const std::string& inputs, const std::string& more = "") {
    auto net = Upgraded(inputs +
                        "layer { name: 'r' type: 'Reshape' bottom: 'a' top: 'r' reshape_param { shape { "
                        "dim: 2 dim: -1 } " +
                        more + " } }");
    KeepBatchOfReshapes(&net);
    return net.layer(net.layer_size() - 1).reshape_param().shape().dim(0);
  };
  const std::string a = "layer { name: 'a' type: 'Input' top: 'a' input_param { shape { dim: 2 dim: 6 } } } ";
  EXPECT_EQ(first_dim(a), 0);
  EXPECT_EQ(first_dim("input: 'a' input_dim: 2 input_dim: 1 input_dim: 3 input_dim: 3 "), 0);
  EXPECT_EQ(first_dim(a, "axis: 1"), 2);
  EXPECT_EQ(first_dim(a, "num_axes: 0"), 2) << "it puts an axis in front";
  EXPECT_EQ(first_dim("input: 'a' input_shape { dim: 3 dim: 6 } "), 2) << "another batch";
  EXPECT_EQ(first_dim(a + "layer { name: 'b' type: 'Input' top: 'b' input_param { shape { dim: 9 } } } "), 2);
  const auto data = [](const std::string& type, const std::string& param, const std::string& batch) {
    return "layer { name: 'd' type: '" + type + "' top: 'a' " + param + " { " + batch + " } } ";
  };
  for (const std::string batch : {"batch_size: 2", "batch_size: 4"}) {
    const int64_t want = batch == "batch_size: 2" ? 0 : 2;
    EXPECT_EQ(first_dim(data("Data", "data_param", batch)), want);
    EXPECT_EQ(first_dim(data("ImageData", "image_data_param", batch)), want);
    EXPECT_EQ(first_dim(data("HDF5Data", "hdf5_data_param", batch)), want);
  }
  const std::string two = data("Data", "data_param", "batch_size: 2");
  EXPECT_EQ(first_dim(data("DummyData", "dummy_data_param", "shape { dim: 2 dim: 6 } shape { dim: 2 }") + two), 0);
  EXPECT_EQ(first_dim(data("DummyData", "dummy_data_param", "num: 2 channels: 1 height: 1 width: 6")), 0);
  EXPECT_EQ(first_dim(two + data("Data", "data_param", "batch_size: 5 source: 'test'")), 2) << "the test has another";
  EXPECT_EQ(first_dim(two + data("MemoryData", "memory_data_param", "batch_size: 2")), 2) << "not known";
  EXPECT_EQ(first_dim(two + "layer { name: 'p' type: 'Parameter' top: 'p' } "), 0);
}

TEST_F(UpgradeTest, LaterFaultsNameTheLineOfTheOldFile) {
  EXPECT_EQ(ErrorOf("\nlayers { name: 'a' type: RELU }\n\nlayers { name: 'b' type: RELU include { } exclude { } }"),
            "net.prototxt:4: layer \"b\" has both include and exclude rules; give one kind");
}

}  // namespace
}  // namespace hp
