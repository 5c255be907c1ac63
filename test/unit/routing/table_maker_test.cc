#include "scheduler/plan/table_maker.h"

#include "scheduler/plan/table_check.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// conv1, an auxiliary head, conv2, then three products.
constexpr char kDeepNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 64 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" }
    layer { name: "aux" type: "InnerProduct" bottom: "conv1" top: "aux" inner_product_param { num_output: 10 } }
    layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2" }
    layer { name: "flat" type: "Flatten" bottom: "conv2" top: "flat" }
    layer { name: "fc6" type: "InnerProduct" bottom: "flat" top: "fc6" inner_product_param { num_output: 40 } }
    layer { name: "relu6" type: "ReLU" bottom: "fc6" top: "fc6" }
    layer { name: "fc7" type: "InnerProduct" bottom: "fc6" top: "fc7" inner_product_param { num_output: 40 } }
    layer { name: "relu7" type: "ReLU" bottom: "fc7" top: "fc7" }
    layer { name: "fc8" type: "InnerProduct" bottom: "fc7" top: "fc8" inner_product_param { num_output: 10 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc8" bottom: "label" top: "loss" })";

class TableMakerTest : public ::testing::Test {
 protected:
  TableRequest Request(int conv, const std::vector<int>& fc, const std::vector<std::string>& hosts) {
    TableRequest request;
    request.solver = "solver.prototxt";
    request.conv = {conv};
    request.fc = fc;
    request.hosts = hosts;
    return request;
  }
  RoutingTableConfig Make(const TableRequest& request) {
    const auto config = MakeTable(request, net_);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : RoutingTableConfig();
  }
  std::string Fault(const TableRequest& request) { return MakeTable(request, net_).status().message(); }

  caffe::NetParameter net_ = Parse<caffe::NetParameter>(kDeepNet);
};

std::vector<std::string> Stages(const RoutingTableConfig& config) {
  std::vector<std::string> stages;
  for (const auto& stage : config.stage()) stages.push_back(stage.from_layer() + ".." + stage.to_layer());
  return stages;
}

std::vector<std::string> Nodes(const RoutingTableConfig& config) {
  std::vector<std::string> nodes;
  for (const auto& node : config.node())
    nodes.push_back(node.name() + "@" + node.host() + ":" + std::to_string(node.port()));
  return nodes;
}

TEST_F(TableMakerTest, FcStageBeginsBehindTheLastConvolution) {
  const RoutingTableConfig config = Make(Request(2, {2}, {"a", "b", "c", "d"}));
  EXPECT_THAT(Stages(config), ElementsAre("data..flat", "fc6..loss"));
  EXPECT_THAT(Nodes(config), ElementsAre("conv0@a:29500", "conv1@b:29500", "fc0@c:29500", "fc1@d:29500"));
}

TEST_F(TableMakerTest, HostsNamedSeveralTimesOrTooFewGetSeveralPorts) {
  EXPECT_THAT(Nodes(Make(Request(2, {1}, {"a", "a", "b"}))),
              ElementsAre("conv0@a:29500", "conv1@a:29501", "fc0@b:29500"));
  TableRequest request = Request(3, {2}, {"a", "b"});
  request.port = 1000;
  EXPECT_THAT(Nodes(Make(request)),
              ElementsAre("conv0@a:1000", "conv1@b:1000", "conv2@a:1001", "fc0@b:1001", "fc1@a:1002"));
}

TEST_F(TableMakerTest, EnginesAreTimedWhereTheRequestSaysSo) {
  TableRequest request = Request(1, {1}, {"a/cuda:0", "b"});
  EXPECT_FALSE(Make(request).has_convolution_engines());
  request.convolution_engines = RoutingTableConfig::TIMED;
  EXPECT_EQ(Make(request).convolution_engines(), RoutingTableConfig::TIMED);
  request.hosts = {"a", "b"};
  EXPECT_THAT(Fault(request), HasSubstr("convolution_engines is TIMED, but no node computes on a GPU"));
}

TEST_F(TableMakerTest, GpusDecodeJpegsWhereTheRequestSaysSo) {
  TableRequest request = Request(1, {1}, {"a/cuda:0", "b"});
  EXPECT_FALSE(Make(request).has_jpeg_decoder());
  request.jpeg_decoder = RoutingTableConfig::GPU;
  EXPECT_EQ(Make(request).jpeg_decoder(), RoutingTableConfig::GPU);
  request.hosts = {"a", "b/cuda:0"};
  EXPECT_THAT(Fault(request), HasSubstr("jpeg_decoder is GPU, but node \"conv0\" reads records"));
}

TEST_F(TableMakerTest, ShardsBesideConvNodesAndBeyondThem) {
  TableRequest request = Request(2, {3}, {"a", "b", "c"});
  request.beside = true;
  const RoutingTableConfig config = Make(request);
  EXPECT_THAT(Nodes(config), ElementsAre("conv0@a:29500", "conv1@b:29500", "fc2@c:29500"));
  for (int shard : {0, 1}) {
    ASSERT_EQ(config.node(shard).part_size(), 1);
    EXPECT_EQ(config.node(shard).part(0).stage(), 1);
    EXPECT_EQ(config.node(shard).part(0).index(), shard);
  }
  EXPECT_EQ(config.node(2).index(), 2);
}

TEST_F(TableMakerTest, PlainTrainingIsOneStage) {
  const RoutingTableConfig config = Make(Request(1, {}, {"a"}));
  EXPECT_THAT(Stages(config), ElementsAre("data..loss"));
  EXPECT_EQ(config.micro_batches(), 1);
}

TEST_F(TableMakerTest, SeveralFcStagesDivideTheProducts) {
  EXPECT_THAT(Stages(Make(Request(1, {2, 1}, {"a"}))), ElementsAre("data..flat", "fc6..relu6", "fc7..loss"));
  EXPECT_THAT(Stages(Make(Request(1, {1, 1, 1}, {"a"}))),
              ElementsAre("data..flat", "fc6..relu6", "fc7..relu7", "fc8..loss"));
  EXPECT_THAT(Fault(Request(1, {1, 1, 1, 1}, {"a"})),
              HasSubstr("--fc asks for 4 FC stage(s); the net has 3 InnerProduct"));
}

TEST_F(TableMakerTest, AProductThatShardsDoNotDivideEndsTheSearch) {
  caffe::LayerParameter* const last = net_.mutable_layer(net_.layer_size() - 2);
  ASSERT_EQ(last->name(), "fc8");
  last->mutable_inner_product_param()->set_axis(2);
  TableRequest request = Request(2, {1}, {"a"});
  EXPECT_EQ(
      Fault(request),
      "--fc asks for 1 FC stage(s); the net has 0 InnerProduct layer(s) after layer \"fc8\", an InnerProduct along "
      "another axis than 1, which shards don't divide; --cut=fc6 begins a stage, of one shard, with the products "
      "before it "
      "(--cut=LAYER,... sets the boundaries by hand, and stages of a table of your own may name any layers)");
  request.cut = {"fc6"};
  EXPECT_THAT(Stages(Make(request)), ElementsAre("data..flat", "fc6..loss"));
}

TEST_F(TableMakerTest, LayersThatShardsDoNotDivideEndTheSearch) {
  caffe::LayerParameter* const last = net_.add_layer();
  last->set_name("scores");
  last->set_type("Parameter");
  EXPECT_THAT(Fault(Request(2, {1}, {"a"})),
              HasSubstr("0 InnerProduct layer(s) after layer \"scores\" (Parameter), which shards don't divide; "
                        "--cut=fc6 begins a stage, of one shard, with the products before it"));
  last->set_type("Convolution");
  EXPECT_THAT(Fault(Request(2, {1}, {"a"})), HasSubstr("after layer \"scores\" (Convolution), which shards"));
}

TEST_F(TableMakerTest, LayersThatShareParametersAreInOneStage) {
  const auto share = [this](const char* layer) {
    for (caffe::LayerParameter& other : *net_.mutable_layer()) {
      if (other.name() == layer) other.add_param()->set_name("w");
    }
  };
  share("fc6"), share("fc7");
  EXPECT_EQ(Make(Request(1, {1, 1}, {"a"})).stage(2).from_layer(), "fc8") << "not fc7";
  share("aux");
  EXPECT_EQ(Make(Request(1, {1}, {"a"})).stage(1).from_layer(), "fc8");
  share("fc8");
  EXPECT_THAT(Make(Request(1, {1}, {"a"})).stage(1).layer(),
              ElementsAre("aux", "fc6", "relu6", "fc7", "relu7", "fc8", "loss"));
  EXPECT_THAT(Fault(Request(1, {1, 1}, {"a"})),
              HasSubstr("of which 3 can't begin a stage: layers share parameters across"));
  share("conv2");
  EXPECT_THAT(Fault(Request(1, {1}, {"a"})),
              HasSubstr("of which 3 can't begin a stage: layers share parameters across"));
}

/// As Caffe's mnist_siamese has it: all of one branch, then all of the other.
constexpr char kBranches[] = R"(
    layer { name: "pair" type: "Data" top: "pair" top: "sim" data_param { batch_size: 64 } }
    layer { name: "slice" type: "Slice" bottom: "pair" top: "data" top: "data_p" }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { name: "c" } }
    layer { name: "ip1" type: "InnerProduct" bottom: "conv1" top: "ip1" param { name: "w1" }
            inner_product_param { num_output: 40 } }
    layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
    layer { name: "feat" type: "InnerProduct" bottom: "ip1" top: "feat" param { name: "w2" }
            inner_product_param { num_output: 2 } }
    layer { name: "conv1_p" type: "Convolution" bottom: "data_p" top: "conv1_p" param { name: "c" } }
    layer { name: "ip1_p" type: "InnerProduct" bottom: "conv1_p" top: "ip1_p" param { name: "w1" }
            inner_product_param { num_output: 40 } }
    layer { name: "relu1_p" type: "ReLU" bottom: "ip1_p" top: "ip1_p" }
    layer { name: "feat_p" type: "InnerProduct" bottom: "ip1_p" top: "feat_p" param { name: "w2" }
            inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "ContrastiveLoss" bottom: "feat" bottom: "feat_p" bottom: "sim" top: "loss" })";

TEST_F(TableMakerTest, AnFcStageHasWhatIsBehindTheConvolutionsOfAllBranches) {
  for (const bool shared : {true, false}) {
    net_ = Parse<caffe::NetParameter>(kBranches);
    for (caffe::LayerParameter& layer : *net_.mutable_layer()) {
      if (!shared) layer.clear_param();
    }
    const RoutingTableConfig config = Make(Request(2, {2}, {"a"}));
    EXPECT_THAT(Stages(config), ElementsAre("pair..conv1_p", "..")) << shared;
    EXPECT_THAT(config.stage(1).layer(), ElementsAre("ip1", "relu1", "feat", "ip1_p", "relu1_p", "feat_p", "loss"));
  }
  EXPECT_THAT(Stages(Make(Request(2, {1, 1}, {"a"}))), ElementsAre("pair..conv1_p", "ip1_p..relu1_p", "feat_p..loss"))
      << "of several, each is a part of the file's order";
  net_ = Parse<caffe::NetParameter>(kBranches);
  EXPECT_THAT(Fault(Request(2, {1, 1}, {"a"})), HasSubstr("stages of a table of your own may name any layers"));
  TableRequest request = Request(2, {2}, {"a"});
  request.side_classifiers = true;
  EXPECT_THAT(Fault(request), HasSubstr("--side_classifiers: the net has none in front of layer \"ip1\""));
}

TEST_F(TableMakerTest, CutsByHand) {
  TableRequest request = Request(1, {2, 1}, {"a"});
  request.cut = {"flat", "fc8"};
  EXPECT_THAT(Stages(Make(request)), ElementsAre("data..conv2", "flat..relu7", "fc8..loss"));
  request.cut = {"fc8", "fc6"};
  EXPECT_THAT(Fault(request), HasSubstr("layer \"fc6\" leaves the stage before it empty"));
  request.cut = {"fc6", "fc88"};
  EXPECT_THAT(Fault(request), HasSubstr("the net has no layer \"fc88\" (did you mean \"fc8\"?)"));
  request.cut = {"fc6"};
  EXPECT_THAT(Fault(request), HasSubstr("--cut names 1 layer(s) for 2 stage(s) behind the first"));
  request.cut = {"fc6", "relu7"};
  EXPECT_THAT(Stages(Make(request)), ElementsAre("data..flat", "fc6..fc7", "relu7..loss")) << "an in-place pair";
}

TEST_F(TableMakerTest, SeveralConvStages) {
  TableRequest request = Request(1, {2}, {"a", "b", "c"});
  request.conv = {2, 1};
  EXPECT_THAT(Fault(request), HasSubstr("--conv asks for 2 conv stages; expected --cut=LAYER,..."));
  request.cut = {"fc6"};
  EXPECT_THAT(Fault(request), HasSubstr("--cut names 1 layer(s) for 2 stage(s) behind the first"));
  request.cut = {"conv2", "fc6"};
  const RoutingTableConfig config = Make(request);
  EXPECT_THAT(Stages(config), ElementsAre("data..aux", "conv2..flat", "fc6..loss"));
  EXPECT_THAT(Nodes(config),
              ElementsAre("conv_a0@a:29500", "conv_a1@b:29500", "conv_b0@c:29500", "fc0@a:29501", "fc1@b:29501"));
  request.shares = {2, 1};
  EXPECT_EQ(Make(request).node(0).share(), 2);
  request.shares.clear();
  request.beside = true;
  EXPECT_THAT(Fault(request), HasSubstr("--beside goes with one conv stage, and --conv asks for 2"));
  request.beside = false;
  request.ps = 1;
  EXPECT_THAT(Fault(request), HasSubstr("--ps goes with one conv stage"));
  request = Request(1, {}, {"a", "b"});
  request.conv = {1, 1};
  request.cut = {"conv2"};
  EXPECT_THAT(Stages(Make(request)), ElementsAre("data..aux", "conv2..loss"));
  EXPECT_EQ(Make(request).micro_batches(), 4);
  request.conv = {3, 2};
  EXPECT_THAT(Fault(request), HasSubstr("expected one number to divide the other"));
}

TEST_F(TableMakerTest, MicroBatchesAreNotTooSmall) {
  EXPECT_EQ(Make(Request(1, {1}, {"a"})).micro_batches(), 4);
  EXPECT_EQ(Make(Request(3, {1}, {"a"})).micro_batches(), 2);
  EXPECT_EQ(Make(Request(32, {1}, {"a"})).micro_batches(), 1);
  TableRequest request = Request(32, {1}, {"a"});
  request.per_replica = true;
  EXPECT_EQ(Make(request).micro_batches(), 4);
  request.micro_batches = 3;
  EXPECT_EQ(Make(request).micro_batches(), 3);
  EXPECT_THAT(Fault(Request(65, {1}, {"a"})), HasSubstr("more than the 64 samples"));
}

// Another number of micro-batches would normalise by other rows.
TEST_F(TableMakerTest, OneMicroBatchWhereLayersNormaliseByIt) {
  caffe::NetParameter net = net_;
  *net.add_layer() = Parse<caffe::LayerParameter>(
      "name: 'norm' type: 'BatchNorm' bottom: 'fc8' top: 'norm' batch_norm_param { use_global_stats: true }");
  EXPECT_EQ(MakeTable(Request(2, {2}, {"a"}), net)->micro_batches(), 4);
  net.mutable_layer(net.layer_size() - 1)->clear_batch_norm_param();
  const auto config = MakeTable(Request(2, {2}, {"a"}), net);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->micro_batches(), 1);
  EXPECT_THAT(DescribeTable(*config, net),
              HasSubstr("x 1 micro-batch(es) of 32 or more, by whose statistics layers normalise"));
  TableRequest request = Request(2, {2}, {"a"});
  request.micro_batches = 2;
  EXPECT_EQ(MakeTable(request, net)->micro_batches(), 2) << "whoever asks for them gets them";
}

TEST_F(TableMakerTest, BadRequests) {
  EXPECT_THAT(Fault(Request(0, {1}, {"a"})), HasSubstr("--conv is 0"));
  EXPECT_THAT(Fault(Request(1, {1, 0}, {"a"})), HasSubstr("--fc has a stage of 0 nodes"));
  EXPECT_THAT(Fault(Request(1, {1}, {})), HasSubstr("--hosts is empty"));
  TableRequest request = Request(1, {2}, {"a"});
  for (const char* split : {"fc6", "fc6:ROWS", ":", "fc6:"}) {
    request.split = {split};
    EXPECT_THAT(Fault(request), HasSubstr(std::string("--split has \"") + split + "\"; expected LAYER:OUTPUTS"));
  }
  request.split = {"fc9:INPUTS"};
  EXPECT_THAT(Fault(request), HasSubstr("\"fc9\" is not a layer of the net"));
  request = Request(1, {1}, {"a"});
  request.port = 65535;
  EXPECT_THAT(Fault(request), HasSubstr("node \"fc0\" has port 65536"));
}

TEST_F(TableMakerTest, SplitsAndBoundariesAsAskedFor) {
  TableRequest request = Request(2, {2}, {"a", "b"});
  request.split = {"fc7:INPUTS", "fc8:NONE"};
  request.scattered = true;
  const RoutingTableConfig config = Make(request);
  ASSERT_EQ(config.split_size(), 2);
  EXPECT_EQ(config.split(0).layer(), "fc7");
  EXPECT_EQ(config.split(0).by(), SplitConfig::INPUTS);
  EXPECT_EQ(config.split(1).by(), SplitConfig::NONE);
  EXPECT_FALSE(config.stage(0).has_boundary());
  EXPECT_EQ(config.stage(1).boundary(), StageConfig::SCATTERED);
}

TEST_F(TableMakerTest, TextReadsBackAsTheSameTable) {
  TableRequest request = Request(2, {2, 1}, {"a", "b"});
  request.split = {"fc7:INPUTS"};
  request.scattered = true;
  request.per_replica = true;
  request.job = "my job";
  const RoutingTableConfig config = Make(request);
  const std::string text = TableText(config, "one\ntwo");
  EXPECT_THAT(text, HasSubstr("# one\n# two\n"));
  EXPECT_EQ(Parse<RoutingTableConfig>(text).SerializeAsString(), config.SerializeAsString());
  EXPECT_THAT(DescribeTable(config, net_), HasSubstr("fc_a1"));
}

std::vector<std::string> Devices(const RoutingTableConfig& config) {
  std::vector<std::string> devices;
  for (const auto& node : config.node()) devices.push_back(node.host() + "/" + node.device());
  return devices;
}

TEST_F(TableMakerTest, GivesEachGpuANode) {
  EXPECT_THAT(Devices(Make(Request(3, {2}, {"a/cuda:0-1", "b/cuda:2", "c", "d/cuda:0"}))),
              ElementsAre("a/cuda:0", "a/cuda:1", "b/cuda:2", "c/cpu", "d/cuda:0"));
}

TEST_F(TableMakerTest, RefusesMoreReplicasThanGpus) {
  // As many of a host as a scheduler has tasks there.
  EXPECT_THAT(Devices(Make(Request(2, {1}, {"a/cuda", "a/cuda", "b"}))), ElementsAre("a/cuda", "a/cuda", "b/cpu"));
  EXPECT_THAT(
      Fault(Request(3, {1}, {"a/cuda:0-1"})),
      HasSubstr("node \"conv0\" and node \"conv2\" both compute on cuda:0 of a; expected a GPU of its own for each "
                "replica"));
  // A shard beside a replica, as where there is one GPU.
  EXPECT_THAT(Devices(Make(Request(1, {1}, {"a/cuda:0"}))), ElementsAre("a/cuda:0", "a/cuda:0"));
}

TEST_F(TableMakerTest, RefusesWhatNamesNoDevice) {
  for (const char* host : {"a/", "/cuda:0", "a/gpu", "a/cuda:", "a/cuda:x", "a/cuda:-1", "a/cuda:3-1", "a/cuda:0-",
                           "a/cuda:0-9999", "a/cuda:0-1x", "a b"}) {
    EXPECT_THAT(Fault(Request(1, {}, {host})), HasSubstr(std::string("--hosts has \"") + host + "\"")) << host;
  }
}

}  // namespace
}  // namespace hp
