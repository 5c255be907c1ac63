// Stages are sets of layers, cut anywhere: a net with branches that join, a side classifier and two losses is divided
// over conv and FC stages in every way that the words of a table allow.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

constexpr char kBranched[] = R"(
    layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
            convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }
    layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }
    layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: 'narrow' type: 'Convolution' bottom: 'pool1' top: 'narrow'
            convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: 'msra' } } }
    layer { name: 'wide' type: 'Convolution' bottom: 'pool1' top: 'wide'
            convolution_param { num_output: 7 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
    layer { name: 'wide/relu' type: 'ReLU' bottom: 'wide' top: 'wide' }
    layer { name: 'mix' type: 'Concat' bottom: 'narrow' bottom: 'wide' top: 'mix' }
    layer { name: 'side/pool' type: 'Pooling' bottom: 'mix' top: 'side/pool'
            pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
    layer { name: 'side/fc' type: 'InnerProduct' bottom: 'side/pool' top: 'side/fc'
            inner_product_param { num_output: 20 weight_filler { type: 'xavier' } } }
    layer { name: 'side/relu' type: 'ReLU' bottom: 'side/fc' top: 'side/fc' }
    layer { name: 'side/drop' type: 'Dropout' bottom: 'side/fc' top: 'side/fc' dropout_param { dropout_ratio: 0.3 } }
    layer { name: 'side/out' type: 'InnerProduct' bottom: 'side/fc' top: 'side/out'
            inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
    layer { name: 'side/loss' type: 'SoftmaxWithLoss' bottom: 'side/out' bottom: 'label' top: 'side/loss'
            loss_weight: 0.3 loss_param { ignore_label: 2 } }
    layer { name: 'conv3' type: 'Convolution' bottom: 'mix' top: 'conv3'
            convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
    layer { name: 'relu3' type: 'ReLU' bottom: 'conv3' top: 'conv3' }
    layer { name: 'conv4' type: 'Convolution' bottom: 'conv3' top: 'conv4'
            convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
    layer { name: 'sum' type: 'Eltwise' bottom: 'conv3' bottom: 'conv4' top: 'sum' }
    layer { name: 'fc6' type: 'InnerProduct' bottom: 'sum' top: 'fc6'
            inner_product_param { num_output: 40 weight_filler { type: 'xavier' } } }
    layer { name: 'relu6' type: 'ReLU' bottom: 'fc6' top: 'fc6' }
    layer { name: 'fc7' type: 'InnerProduct' bottom: 'fc6' top: 'fc7'
            inner_product_param { num_output: 30 weight_filler { type: 'xavier' } } }
    layer { name: 'relu7' type: 'ReLU' bottom: 'fc7' top: 'fc7' }
    layer { name: 'fc8' type: 'InnerProduct' bottom: 'fc7' top: 'fc8'
            inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
    layer { name: 'accuracy' type: 'Accuracy' bottom: 'fc8' bottom: 'label' top: 'accuracy' include { phase: TEST } }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc8' bottom: 'label' top: 'loss' })";

ClusterSpec Stages(std::vector<ClusterStage> stages, int micro, int pool, bool tcp = false) {
  ClusterSpec spec;
  spec.stages = std::move(stages);
  spec.micro_batches = micro;
  spec.pool_size = pool;
  spec.tcp = tcp;
  return spec;
}

class StagesTest : public ContractTest {
 protected:
  static std::string Branched(const std::string& extra = "") { return SolverOf(kBranched, extra); }
};

constexpr char kAll[] = "kind: CONV";  // what no other stage names
constexpr char kConv[] = "kind: CONV to_layer: 'sum'", kFc[] = "kind: FC from_layer: 'fc6'";

// The classifiers of both losses are FC stages on nodes of their own.
TEST_F(StagesTest, ASideClassifierOfItsOwn) {
  const ClusterStage side{"kind: FC layer: 'side/*'", 2};
  Check(Branched(), {Stages({{kConv, 2}, side, {kFc, 3}}, 2, 0), Stages({{kConv, 1}, {kFc, 1}, side}, 3, 1),
                     Stages({{kConv, 3}, {"kind: FC layer: 'side/*' boundary: SCATTERED", 3}, {kFc, 2}}, 1, 1, true)});
}

// A plain pipeline of two conv stages, of as many replicas, fewer, or more: micro-batches go over them in turn.
TEST_F(StagesTest, ConvLayersCutInTwo) {
  const char first[] = "kind: CONV to_layer: 'mix'", second[] = "kind: CONV from_layer: 'side/pool' to_layer: 'sum'";
  std::vector<ClusterSpec> tables;
  for (const auto& [replicas, behind] : {std::pair(2, 2), {2, 1}, {1, 2}, {4, 2}, {2, 4}, {1, 1}}) {
    tables.push_back(Stages({{first, replicas}, {second, behind}, {kFc, 2}}, 2, replicas % 2, behind == 4));
  }
  Check(Branched(), tables);
}

TEST_F(StagesTest, ThreeConvStagesAndNoShards) {
  Check(Branched(), {Stages({{"kind: CONV to_layer: 'relu1'", 2},
                             {"kind: CONV from_layer: 'pool1' to_layer: 'sum'", 4},
                             {"kind: CONV from_layer: 'fc6'", 1}},
                            3, 1)});
}

// Two branches on nodes of their own, joined on those that they started from, and elsewhere.
TEST_F(StagesTest, BranchesThatJoinElsewhere) {
  const ClusterStage narrow{"kind: CONV layer: 'narrow'", 2}, wide{"kind: CONV layer: 'wide*'", 1};
  Check(Branched(), {Stages({{kConv, 2}, narrow, wide, {kFc, 2}}, 2, 1),
                     Stages({{"kind: CONV to_layer: 'pool1'", 2},
                             wide,
                             narrow,
                             {"kind: CONV from_layer: 'mix' to_layer: 'sum'", 4},
                             {kFc, 3}},
                            2, 0, true)});
}

// The nodes that read the samples have the losses too, and run two segments or three; shards in between.
TEST_F(StagesTest, BackOnTheNodesThatRead) {
  Check(Branched(),
        {Stages({{kAll, 2}, {"kind: FC layer: 'fc6' layer: 'relu6' layer: 'fc7'", 3}}, 2, 1),
         Stages({{kAll, 3}, {"kind: FC layer: 'fc6'", 2}, {"kind: FC layer: 'side/fc' layer: 'side/out'", 2}}, 2, 0,
                true)});
}

// Replicas behind shards: each has the classes of its own micro-batches, and labels that others read.
TEST_F(StagesTest, ReplicasBehindShards) {
  const char behind[] = "kind: CONV from_layer: 'fc7'";
  const ClusterStage fc6{"kind: FC from_layer: 'fc6' to_layer: 'relu6'", 3};
  Check(Branched(), {Stages({{kConv, 2}, fc6, {behind, 2}}, 2, 1), Stages({{kConv, 1}, fc6, {behind, 3}}, 3, 0),
                     Stages({{kConv, 2}, {behind, 4}, fc6}, 2, 2, true)});
}

// The order of stages in the table says nothing of the order of layers.
TEST_F(StagesTest, InAnyOrder) {
  Check(Branched("clip_gradients: 0.8"),
        {Stages({{kConv, 2}, {"kind: FC from_layer: 'fc8'", 2}, {"kind: FC from_layer: 'fc6' to_layer: 'relu7'", 2}}, 2,
                1)});
}

// A replica and a shard on one node, also two shards of different stages and replicas of two; some shards elsewhere.
TEST_F(StagesTest, NodesWithSeveralParts) {
  const char behind[] = "kind: CONV from_layer: 'conv3' to_layer: 'sum'", rest[] = "kind: CONV to_layer: 'mix'";
  const ClusterStage side{"kind: FC layer: 'side/*'", 2, {1, 0}};
  Check(Branched(),
        {Stages({{kConv, 2}, {kFc, 2, {0, 1}}}, 2, 1), Stages({{kConv, 3}, {kFc, 2, {2}}}, 1, 0, true),
         Stages({{kConv, 1}, {kFc, 2, {0}}}, 3, 2), Stages({{kConv, 2}, side, {kFc, 3, {1, 0}}}, 2, 1, true),
         Stages({{rest, 2}, {behind, 2, {0, 1}}, side, {kFc, 2, {1}}}, 2, 1),
         Stages({{rest, 2}, {behind, 1, {1}}, side, {kFc, 2, {0, 1}}}, 3, 0),
         Stages({{rest, 1}, {behind, 3, {0}}, {"kind: FC layer: 'side/*'", 3, {2, 1, 0}}, {kFc, 2}}, 3, 1, true)});
}

// Hosts of different speed: parts of the batch of different size, down to one sample of eleven.
TEST_F(StagesTest, UnequalShares) {
  std::vector<ClusterSpec> tables = {Table(2, {2}, 2, 1, false), Table(3, {1}, 1, 0, true), Table(2, {}, 2, 1, false),
                                     Stages({{kConv, 2}, {kFc, 2, {1, 0}}}, 1, 1)};
  tables[0].shares = {3, 1};
  tables[1].shares = {8, 1, 2};
  tables[2].shares = {2, 7};
  tables[3].shares = {1, 10};
  Check(Solver(""), {tables.begin(), tables.begin() + 3});
  Check(Branched(), {tables[3]});
}

TEST_F(StagesTest, SeveralPartsWithClippingAndSplits) {
  ClusterSpec split = Stages({{kConv, 2}, {kFc, 3, {1, 0}}}, 2, 1);
  split.splits = {{"fc7", SplitConfig::INPUTS}};
  ClusterSpec lead = Stages({{kAll, 2}, {"kind: FC layer: 'fc?' layer: 'relu?'", 2, {0, 1}}}, 2, 0, true);
  lead.stages[1].config = "kind: FC layer: 'fc6' layer: 'fc7' layer: 'relu6' layer: 'relu7' boundary: SCATTERED";
  lead.splits = {{"fc6", SplitConfig::NONE}};
  Check(Branched("clip_gradients: 0.8"), {split, lead});
}

TEST_F(StagesTest, SameBitsTwice) {
  CheckSameBits(Stages({{"kind: CONV to_layer: 'pool1'", 2},
                        {"kind: CONV from_layer: 'narrow' to_layer: 'sum'", 4},
                        {"kind: FC layer: 'side/*'", 2},
                        {kFc, 2}},
                       3, 1),
                SolverOf(kBranched, "", 0.02, 0.002, 8), {1, 2});
  CheckSameBits(Stages({{kConv, 2}, {"kind: FC layer: 'side/*'", 2, {1, 0}}, {kFc, 3, {1, 0}}}, 3, 1),
                SolverOf(kBranched, "", 0.02, 0.002, 8), {1, 2});
}

TEST_F(StagesTest, ResumeFromTheirSnapshots) {
  const std::string prefix = NewPrefix();
  const std::string solver = SolverOf(kBranched, "snapshot: 5 snapshot_prefix: '" + prefix + "'", 0.02, 0.002, 10);
  ClusterSpec table = Stages({{kAll, 2},
                              {"kind: CONV layer: 'conv3' layer: 'relu3' layer: 'conv4' layer: 'sum'", 2},
                              {"kind: FC layer: 'side/*'", 2},
                              {"kind: FC layer: 'fc*'", 3, {1, 0}}},
                             2, 1);
  const ClusterResult whole = TrainCluster(table, solver);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  table.resume = prefix + "_iter_5.solverstate";
  const ClusterResult resumed = TrainCluster(table, solver);
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.params, whole.params);
}

}  // namespace
}  // namespace hp::test
