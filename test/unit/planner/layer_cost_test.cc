// Costs beside the numbers that papers give for their nets.
#include "scheduler/planner/layer_cost.h"

#include "proto/text.h"
#include "scheduler/planner/layer_time.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

namespace hp {
namespace {

std::vector<LayerCost> CostsOfNet(const caffe::NetParameter& net, const Shape& sample) {
  const auto graph = NetGraph::Create(std::make_shared<const caffe::NetParameter>(net), caffe::TRAIN);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const auto shapes = (*graph)->Shapes(sample, 1);
  EXPECT_TRUE(shapes.ok()) << shapes.status();
  return shapes.ok() ? CostsOf(**graph, *shapes) : std::vector<LayerCost>();
}

NetCost SumOfExample(const std::string& name, int64_t crop) {
  const auto net = ReadNet("examples/" + name + "/" + name + "_train_val.prototxt");
  EXPECT_TRUE(net.ok()) << net.status();
  return net.ok() ? SumOf(CostsOfNet(*net, {3, crop, crop})) : NetCost();
}

TEST(LayerCostTest, ProductsAndParametersOfKnownNets) {
  const NetCost alexnet = SumOfExample("alexnet", 227);
  EXPECT_NEAR(static_cast<double>(alexnet.products), 0.724e9, 0.002e9) << "with groups in conv2, conv4 and conv5";
  EXPECT_EQ(alexnet.parameter_bytes, 4 * 60'965'224);
  const NetCost vgg16 = SumOfExample("vgg16", 224);
  EXPECT_NEAR(static_cast<double>(vgg16.products), 15.47e9, 0.02e9);
  EXPECT_EQ(vgg16.parameter_bytes, 4 * 138'357'544LL);
  const NetCost googlenet = SumOfExample("googlenet", 224);
  EXPECT_NEAR(static_cast<double>(googlenet.products), 1.60e9, 0.05e9) << "1.58 G without its side classifiers";
}

TEST(LayerCostTest, EachLayerByItsShapes) {
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
      layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
              convolution_param { num_output: 4 kernel_size: 3 } }
      layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
      layer { name: "flat" type: "Flatten" bottom: "conv1" top: "flat" }
      layer { name: "ip1" type: "InnerProduct" bottom: "flat" top: "ip1" inner_product_param { num_output: 50 } }
      layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" param { lr_mult: 0 } param { lr_mult: 0 }
              inner_product_param { num_output: 7 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })");
  const std::vector<LayerCost> costs = CostsOfNet(net, {2, 8, 8});
  ASSERT_EQ(costs.size(), 7u);
  constexpr int64_t kPositions = 6 * 6, kMaps = 4 * kPositions;
  EXPECT_EQ(costs[0].out_bytes, 0) << "a source is no work";
  EXPECT_EQ(costs[1].products, 4 * 2 * 9 * kPositions);
  EXPECT_EQ(costs[1].parameter_bytes, 4 * (4 * 2 * 9 + 4));
  EXPECT_FALSE(costs[1].input_gradient) << "nobody wants the gradient of images";
  EXPECT_TRUE(costs[1].learns);
  EXPECT_EQ(costs[2].products, 0);
  EXPECT_EQ(costs[2].in_bytes + costs[2].out_bytes, 4 * 2 * kMaps);
  EXPECT_EQ(costs[3].in_bytes + costs[3].out_bytes, 0) << "a view";
  EXPECT_EQ(costs[4].products, kMaps * 50);
  EXPECT_TRUE(costs[4].input_gradient);
  EXPECT_EQ(costs[5].parameter_bytes, 4 * (50 * 7 + 7));
  EXPECT_EQ(costs[5].learned_bytes, 0);
  EXPECT_FALSE(costs[5].learns) << "frozen";
  EXPECT_TRUE(costs[5].input_gradient) << "ip1 below it learns";
}

/// Of a table a few rows are read, and none is multiplied.
TEST(LayerCostTest, TablesThatAreLookedUp) {
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
      layer { name: "table" type: "Embed" bottom: "data" top: "table" embed_param { input_dim: 5000 num_output: 30 } }
      layer { name: "ip1" type: "InnerProduct" bottom: "table" top: "ip1" inner_product_param { num_output: 5 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" })");
  const std::vector<LayerCost> costs = CostsOfNet(net, {1, 6, 1});
  EXPECT_EQ(costs[1].products, 0);
  EXPECT_TRUE(costs[1].looks_up && costs[1].learns);
  EXPECT_FALSE(costs[1].input_gradient);
  EXPECT_EQ(costs[1].parameter_bytes, 4 * (5000 * 30 + 30));
  EXPECT_EQ(costs[1].in_bytes + costs[1].out_bytes, 4 * (6 + 6 * 30));
  EXPECT_EQ(costs[2].products, 6 * 30 * 5);
  EXPECT_TRUE(costs[2].input_gradient) << "the table below it learns";
  const LayerTimes times(costs, {.flops = 1e9, .bytes_per_second = 1e9, .calls_per_second = 1e9}, nullptr);
  EXPECT_LT(times.Seconds(1, Pass::kForward, 8, 1), 8 * 4 * 200 * 1e-9) << "no pass over the table";
  EXPECT_GT(times.Seconds(1, Pass::kWeightGradient, 8, 1), 2 * 4 * 5000 * 30 * 1e-9) << "all of its gradient";
}

TEST(LayerCostTest, SharedParametersAreLearnedOnce) {
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
      layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" }
              inner_product_param { num_output: 5 } }
      layer { name: "b" type: "InnerProduct" bottom: "data" top: "b" param { name: "w" }
              inner_product_param { num_output: 5 } }
      layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "sum" bottom: "label" top: "loss" })");
  const std::vector<LayerCost> costs = CostsOfNet(net, {2, 8, 8});
  EXPECT_EQ(costs[1].learned_bytes, 4 * (5 * 128 + 5));
  EXPECT_EQ(costs[2].learned_bytes, 4 * 5) << "its bias";
  EXPECT_EQ(costs[2].parameter_bytes, costs[1].parameter_bytes) << "it reads them all the same";
  EXPECT_EQ(costs[2].products, costs[1].products);
  EXPECT_TRUE(costs[2].learns);
  EXPECT_EQ(SumOf(costs).parameter_bytes, 4 * (5 * 128 + 5 + 5));
}

TEST(LayerCostTest, DeconvolutionsMultiplyByPositionsOfTheirInput) {
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
      layer { name: "up" type: "Deconvolution" bottom: "data" top: "up"
              convolution_param { num_output: 6 group: 2 kernel_size: 3 stride: 2 } }
      layer { name: "ip" type: "InnerProduct" bottom: "up" top: "ip" inner_product_param { num_output: 7 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  const std::vector<LayerCost> costs = CostsOfNet(net, {4, 8, 5});
  ASSERT_EQ(costs.size(), 4u);
  EXPECT_EQ(costs[1].products, 8 * 5 * 4 * 3 * 9) << "each element of the input by 3 outputs of its group";
  EXPECT_EQ(costs[1].parameter_bytes, 4 * (4 * 3 * 9 + 6));
  EXPECT_EQ(costs[1].out_bytes, 4 * 6 * 17 * 11);
}

TEST(LayerCostTest, ActivationsCostTheirBytesAndSilencesNothing) {
  const auto net = Parse<caffe::NetParameter>(R"(
      layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
      layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
              convolution_param { num_output: 4 kernel_size: 3 } }
      layer { name: "swish" type: "Swish" bottom: "conv1" top: "conv1" }
      layer { name: "quiet" type: "Silence" bottom: "conv1" }
      layer { name: "threshold" type: "Threshold" bottom: "conv1" top: "threshold" }
      layer { name: "ip1" type: "InnerProduct" bottom: "threshold" top: "ip1" inner_product_param { num_output: 7 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" })");
  const std::vector<LayerCost> costs = CostsOfNet(net, {2, 8, 8});
  ASSERT_EQ(costs.size(), 6u);
  for (const int layer : {2, 3}) {
    EXPECT_EQ(costs[layer].products, 0);
    EXPECT_EQ(costs[layer].in_bytes + costs[layer].out_bytes, 4 * 2 * 4 * 6 * 6) << costs[layer].layer;
  }
  EXPECT_TRUE(costs[2].input_gradient);
  EXPECT_FALSE(costs[3].input_gradient) << "it has none";
  EXPECT_FALSE(costs[1].learns) << "no gradient reaches it";
  EXPECT_FALSE(costs[4].input_gradient) << "nothing below learns by it";
  EXPECT_TRUE(costs[4].learns);
}

}  // namespace
}  // namespace hp
