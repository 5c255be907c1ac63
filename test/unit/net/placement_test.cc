#include "test/unit/net/net_test_util.h"

#include "gmock/gmock.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hp::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Pair;

/// @param parts writers of each reader's pieces. @param readers that read at all.
void ExpectEdge(const PlacedNet& net, const Edge* edge, int from_stage, int parts, int readers, bool gradient) {
  ASSERT_NE(edge, nullptr);
  EXPECT_EQ(edge->from_stage, from_stage);
  EXPECT_EQ(std::count(edge->reads.begin(), edge->reads.end(), true), readers);
  for (int reader = 0; reader < static_cast<int>(edge->reads.size()); ++reader) {
    const std::vector<EdgePiece> pieces = net.placement->PiecesTo(*edge, reader);
    EXPECT_EQ(pieces.size(), edge->reads[reader] ? parts : 0);
    for (const EdgePiece& piece : pieces) EXPECT_EQ(piece.gradient, gradient);
  }
}

std::string PlacementError(const std::string& text, const StageLayout& layout) {
  const auto cuts = FindCuts(ParseNet(text), caffe::TRAIN, LayerTypes::BuiltIn(), kSample, layout);
  return cuts.ok() ? "" : cuts.status().message();
}

TEST(Placement, OneProcessHasNoEdges) {
  const PlacedNet net(SmallNet(), Layout(1, {}, {}));
  EXPECT_TRUE(net.placement->edges().empty());
  EXPECT_TRUE(net.placement->Backpropagates(1, 0));
}

TEST(Placement, OneShardGetsTheBoundaryOnly) {
  const PlacedNet net(SmallNet(), Layout(3, {1}, {kIp1}));
  EXPECT_EQ(net.placement->edges().size(), 1u);
  ExpectEdge(net, net.FindEdge("pool1", 1), 0, 1, 1, true);
}

TEST(Placement, ShardsGatherSlicesAndSayOfTheirClasses) {
  for (int shards : {2, 4}) {
    const PlacedNet net(SmallNet(), Layout(2, {shards}, {kIp1}));
    EXPECT_EQ(net.placement->edges().size(), 4u);
    ExpectEdge(net, net.FindEdge("pool1", 1), 0, 1, shards, true);
    ExpectEdge(net, net.FindEdge("ip1", 1), 1, shards, shards, true);
    ExpectEdge(net, net.FindEdge("ip2", 1), 1, shards, shards, true);
    ExpectEdge(net, net.FindEdge("loss.classes", 1), 1, shards, shards, false);
    // ReLU works on slices: what is gathered is what it made.
    EXPECT_EQ(net.graph->blobs()[net.FindEdge("ip1", 1)->blob].producer, 4);
    const int loss = static_cast<int>(net.graph->layers().size()) - 1;
    EXPECT_EQ(net.graph->layers()[loss].piece, GraphLayer::kMerged);
    for (int shard = 0; shard < shards; ++shard) {
      EXPECT_TRUE(net.placement->RunsOn(loss, shard));
      EXPECT_TRUE(net.placement->Backpropagates(loss, shard)) << "on its own classes";
      EXPECT_FALSE(net.placement->Backpropagates(loss - 1, shard));
    }
  }
}

TEST(Placement, TwoFcStages) {
  const PlacedNet net(SmallNet(), Layout(2, {2, 3}, {kIp1, kIp2}));
  EXPECT_EQ(net.placement->edges().size(), 4u);
  ExpectEdge(net, net.FindEdge("pool1", 1), 0, 1, 2, true);
  ExpectEdge(net, net.FindEdge("ip1", 2), 1, 2, 3, true);
  ExpectEdge(net, net.FindEdge("ip2", 2), 2, 3, 3, true);
  ExpectEdge(net, net.FindEdge("loss.classes", 2), 2, 3, 3, false);
  EXPECT_EQ(net.FindEdge("ip1", 1), nullptr) << "nobody in the first stage reads it whole";
}

TEST(Placement, NothingGoesBackToFrozenLayersOrInATest) {
  const PlacedNet frozen(SmallNet(true), Layout(2, {2}, {kIp1}));
  ExpectEdge(frozen, frozen.FindEdge("pool1", 1), 0, 1, 2, false);
  ExpectEdge(frozen, frozen.FindEdge("ip1", 1), 1, 2, 2, true);
  EXPECT_FALSE(frozen.placement->Backpropagates(1, 0));
  const PlacedNet test(SmallNet(), Layout(2, {2}, {kIp1}), caffe::TEST);
  for (const Edge& edge : test.placement->edges()) EXPECT_THAT(edge.gradient, Each(false));
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
  ExpectEdge(net, net.FindEdge("conv", 1), 0, 1, 2, true);
  ExpectEdge(net, net.FindEdge("conv", 2), 0, 1, 2, true);
  // An Eltwise over a slice and a gathered blob runs on the lead alone.
  ExpectEdge(net, net.FindEdge("a", 2), 1, 2, 1, true);
  ExpectEdge(net, net.FindEdge("b", 2), 2, 2, 1, true);
}

std::vector<std::pair<std::string, hp::Layout>> EdgesOf(const PlacedNet& net) {
  std::vector<std::pair<std::string, hp::Layout>> edges;
  for (const Edge& edge : net.placement->edges()) edges.push_back({net.graph->blobs()[edge.blob].name, edge.to});
  return edges;
}

// ip1 by outputs, ReLU on its slices, ip2 by inputs: nothing crosses in between. Then the sum, and its slices to ip3.
TEST(Placement, AlternatingSplitsExchangeOnlyTheSum) {
  const PlacedNet net(SmallNet(), Splits(Layout(2, {2}, {kIp1}), {{kIp2, LayerSplit::kInputs}}));
  EXPECT_THAT(EdgesOf(net), ElementsAre(Pair("pool1", hp::Layout::kWhole), Pair("ip2", hp::Layout::kSlice),
                                        Pair("ip2", hp::Layout::kWhole), Pair("loss.classes", hp::Layout::kWhole)));
  const Edge& sum = net.placement->edges()[1];
  EXPECT_TRUE(sum.summed());
  EXPECT_THAT(net.placement->PiecesTo(sum, 1),
              ElementsAre(Field(&EdgePiece::channels, Range{15, 30}), Field(&EdgePiece::channels, Range{15, 30})))
      << "an addend of the same channels from each shard";
}

TEST(Placement, WhatIsSplitByInputsGetsItsSliceOfTheBoundary) {
  const PlacedNet net(SmallNet(), Splits(Layout(2, {4}, {kIp1}), {{kIp1, LayerSplit::kInputs}}));
  const Edge* boundary = net.FindEdge("pool1", 1);
  ASSERT_NE(boundary, nullptr);
  EXPECT_EQ(boundary->to, hp::Layout::kSlice);
  // 6 channels on 4 shards: 1, 2, 1, 2.
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_THAT(net.placement->PiecesTo(*boundary, shard),
                ElementsAre(Field(&EdgePiece::channels, PartOf(6, shard, 4))));
  }
  EXPECT_EQ(net.placement->BlockOn(kIp1, 1, ParamSpec{.name = {}, .shape = {50, 54}}), (Block{0, 50, 9, 27}))
      << "9 pixels a channel";
}

TEST(Placement, ALayerThatIsNotSplitIsTheLeads) {
  const PlacedNet net(SmallNet(), Splits(Layout(1, {3}, {kIp1}), {{kIp2, LayerSplit::kNone}}));
  EXPECT_THAT(EdgesOf(net), ElementsAre(Pair("pool1", hp::Layout::kWhole), Pair("ip1", hp::Layout::kLead),
                                        Pair("ip2", hp::Layout::kWhole), Pair("loss.classes", hp::Layout::kWhole)));
  EXPECT_TRUE(net.placement->RunsOn(kIp2, 0));
  EXPECT_FALSE(net.placement->RunsOn(kIp2, 2));
  const Edge& broadcast = net.placement->edges()[2];
  EXPECT_EQ(net.placement->PiecesFrom(broadcast, 0).size(), 3u) << "itself among them";
  EXPECT_TRUE(net.placement->PiecesFrom(broadcast, 1).empty());
  EXPECT_TRUE(net.placement->BlockOn(kIp2, 1, ParamSpec{.name = {}, .shape = {30, 50}}).empty());
}

TEST(Placement, FewerChannelsThanShardsLieOnSomeOfThem) {
  const PlacedNet net(SmallNet(), Layout(1, {8}, {kIp1}));
  int run = 0;
  for (int shard = 0; shard < 8; ++shard) run += net.placement->RunsOn(kIp3, shard);
  EXPECT_EQ(run, 5) << "ip3 has 5 outputs";
  ExpectEdge(net, net.FindEdge("ip2", 1), 1, 8, 5, true);
  ExpectEdge(net, net.FindEdge("ip3", 1), 1, 5, 1, true);
  EXPECT_EQ(net.FindEdge("loss.classes", 1), nullptr) << "fewer classes than shards are gathered on the lead";
}

std::string NetAbove(const std::string& layers) {
  return "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n"
         "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 6 } }\n" +
         layers;
}

TEST(Placement, WhatComputesOnClassesIsCutWhereTheyLieInSlices) {
  const auto layout = Layout(1, {2}, {1}, 3);
  // The one node that has the accuracy needs what the shards say, and no class.
  const PlacedNet accuracy(NetAbove("layer { name: 'a' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'a' "
                                    "accuracy_param { top_k: 2 } }\n"),
                           layout, caffe::TEST);
  EXPECT_THAT(EdgesOf(accuracy), ElementsAre(Pair("data", hp::Layout::kWhole), Pair("a.classes", hp::Layout::kLead)));
  EXPECT_EQ((*accuracy.graph->Shapes(kSample, 4))[accuracy.placement->edges()[1].blob], (Shape{4, 2 * 3}));
  EXPECT_EQ(accuracy.graph->outputs().size(), 1u);

  const std::string softmax = "layer { name: 's' type: 'Softmax' bottom: 'ip' top: 's' }\n";
  const PlacedNet forward(NetAbove(softmax), layout, caffe::TEST);
  EXPECT_THAT(EdgesOf(forward), ElementsAre(Pair("data", hp::Layout::kWhole), Pair("s.classes", hp::Layout::kWhole)));
  const int top = static_cast<int>(forward.graph->blobs().size()) - 2;
  EXPECT_EQ(forward.graph->blobs()[top].name, "s");
  EXPECT_EQ(forward.placement->layout_of(top), hp::Layout::kSlice);
}

// A softmax whose gradient needs the whole, and one that is the second top of a loss.
TEST(Placement, ClassesAreGatheredWhereTheNumbersOfAllShardsAreNotEnough) {
  const std::string below_loss =
      "layer { name: 's' type: 'Softmax' bottom: 'ip' top: 's' }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'loss' }\n";
  const std::string two_tops =
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' top: 's' }\n";
  for (const auto& [layers, count] : {std::pair(below_loss, 4), {two_tops, 3}}) {
    const PlacedNet net(NetAbove(layers), Layout(1, {2}, {1}, count));
    EXPECT_THAT(EdgesOf(net), ElementsAre(Pair("data", hp::Layout::kWhole), Pair("ip", hp::Layout::kLead))) << layers;
  }
}

TEST(Placement, AScatteredBoundaryCrossesOnceAndIsGatheredByTheShards) {
  const PlacedNet net(SmallNet(), Scattered(Layout(2, {3}, {kIp1}), 1));
  EXPECT_THAT(EdgesOf(net), ElementsAre(Pair("pool1", hp::Layout::kSlice), Pair("pool1", hp::Layout::kWhole),
                                        Pair("ip1", hp::Layout::kWhole), Pair("ip2", hp::Layout::kWhole),
                                        Pair("loss.classes", hp::Layout::kWhole)));
  const Edge &boundary = net.placement->edges()[0], &gather = net.placement->edges()[1];
  EXPECT_EQ(boundary.from_stage, 0);
  EXPECT_EQ(gather.from_stage, 1);
  for (int shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(net.placement->PiecesTo(boundary, shard).size(), 1u);
    EXPECT_EQ(net.placement->PiecesTo(gather, shard).size(), 3u);
  }
}

TEST(Placement, RefusesWhatCannotBePlaced) {
  EXPECT_THAT(PlacementError(SmallNet(), Layout(1, {2}, {1})), AllOf(HasSubstr("\"conv1\""), HasSubstr("2 shards")));
  EXPECT_EQ(PlacementError(SmallNet(), Layout(1, {1}, {1})), "") << "one shard may run any layer";
}

}  // namespace
}  // namespace hp::test
