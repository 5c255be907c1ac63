#include "test/unit/net/net_test_util.h"

#include "gmock/gmock.h"

namespace hp::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

void ExpectEdge(const Edge* edge, int from_stage, int parts, int readers, bool gradient) {
  ASSERT_NE(edge, nullptr);
  EXPECT_EQ(edge->from_stage, from_stage);
  EXPECT_EQ(edge->parts, parts);
  EXPECT_EQ(edge->readers, readers);
  EXPECT_EQ(edge->reader_gradient.size(), static_cast<size_t>(readers));
  EXPECT_THAT(edge->reader_gradient, Each(gradient));
}

std::string PlacementError(const std::string& text, const StageLayout& layout) {
  const auto graph = NetGraph::Create(ParseNet(text), caffe::TRAIN);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto placement = Placement::Create(**graph, layout);
  return placement.ok() ? "" : placement.status().message();
}

TEST(Placement, OneProcessHasNoEdges) {
  const PlacedNet net(SmallNet(), Layout(1, {}, {}));
  EXPECT_TRUE(net.placement->edges().empty());
  EXPECT_TRUE(net.placement->Backpropagates(1, 0));
}

TEST(Placement, OneShardGetsTheBoundaryOnly) {
  const PlacedNet net(SmallNet(), Layout(3, {1}, {kIp1}));
  EXPECT_EQ(net.placement->edges().size(), 1u);
  ExpectEdge(net.FindEdge("pool1", 1), 0, 1, 1, true);
}

TEST(Placement, ShardsGatherSlicesAndTheLeadHasTheLoss) {
  for (int shards : {2, 4}) {
    const PlacedNet net(SmallNet(), Layout(2, {shards}, {kIp1}));
    EXPECT_EQ(net.placement->edges().size(), 4u);
    ExpectEdge(net.FindEdge("pool1", 1), 0, 1, shards, true);
    ExpectEdge(net.FindEdge("ip1", 1), 1, shards, shards, true);
    ExpectEdge(net.FindEdge("ip2", 1), 1, shards, shards, true);
    ExpectEdge(net.FindEdge("ip3", 1), 1, shards, 1, true);
    // ReLU works on slices: what is gathered is what it made.
    EXPECT_EQ(net.graph->blobs()[net.FindEdge("ip1", 1)->blob].producer, 4);
    EXPECT_TRUE(net.placement->RunsOn(7, 0));
    EXPECT_FALSE(net.placement->RunsOn(7, 1));
    EXPECT_TRUE(net.placement->RunsOn(kIp3, shards - 1));
  }
}

TEST(Placement, TwoFcStages) {
  const PlacedNet net(SmallNet(), Layout(2, {2, 3}, {kIp1, kIp2}));
  EXPECT_EQ(net.placement->edges().size(), 4u);
  ExpectEdge(net.FindEdge("pool1", 1), 0, 1, 2, true);
  ExpectEdge(net.FindEdge("ip1", 2), 1, 2, 3, true);
  ExpectEdge(net.FindEdge("ip2", 2), 2, 3, 3, true);
  ExpectEdge(net.FindEdge("ip3", 2), 2, 3, 1, true);
  EXPECT_EQ(net.FindEdge("ip1", 1), nullptr) << "nobody in the first stage reads it whole";
}

TEST(Placement, NothingGoesBackToFrozenLayersOrInATest) {
  const PlacedNet frozen(SmallNet(true), Layout(2, {2}, {kIp1}));
  ExpectEdge(frozen.FindEdge("pool1", 1), 0, 1, 2, false);
  ExpectEdge(frozen.FindEdge("ip1", 1), 1, 2, 2, true);
  EXPECT_FALSE(frozen.placement->Backpropagates(1, 0));
  const PlacedNet test(SmallNet(), Layout(2, {2}, {kIp1}), caffe::TEST);
  for (const Edge& edge : test.placement->edges()) EXPECT_FALSE(edge.any_gradient());
}

TEST(Placement, ABlobThatTwoStagesReadCrossesTwice) {
  const std::string text =
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n"
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 4 "
      "kernel_size: 3 } }\n"
      "layer { name: 'a' type: 'InnerProduct' bottom: 'conv' top: 'a' inner_product_param { num_output: 6 } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'conv' top: 'b' inner_product_param { num_output: 6 } }\n"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'sum' bottom: 'label' top: 'loss' }\n";
  const PlacedNet net(text, Layout(2, {2, 2}, {2, 3}, 6));
  ExpectEdge(net.FindEdge("conv", 1), 0, 1, 2, true);
  ExpectEdge(net.FindEdge("conv", 2), 0, 1, 2, true);
  // An Eltwise over a slice and a gathered blob runs on the lead alone.
  ExpectEdge(net.FindEdge("a", 2), 1, 2, 1, true);
  ExpectEdge(net.FindEdge("b", 2), 2, 2, 1, true);
}

TEST(Placement, RefusesWhatCannotBePlaced) {
  StageLayout backwards = Layout(1, {1}, {kIp1});
  backwards.stage_of_layer[2] = 1;
  backwards.stage_of_layer[3] = 0;
  EXPECT_THAT(PlacementError(SmallNet(), backwards), AllOf(HasSubstr("\"ip1\""), HasSubstr("\"pool1\"")));
  EXPECT_THAT(PlacementError(SmallNet(), Layout(1, {2}, {1})), AllOf(HasSubstr("\"conv1\""), HasSubstr("2 shards")));
  EXPECT_EQ(PlacementError(SmallNet(), Layout(1, {1}, {1})), "") << "one shard may run any layer";
}

}  // namespace
}  // namespace hp::test
