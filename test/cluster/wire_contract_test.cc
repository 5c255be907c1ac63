// wire_precision: BF16. What crosses is rounded once, by who makes it, and read so by all: results are near those of
// float32, and stages, not nodes, decide what they are.
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

ClusterSpec Rounded(ClusterSpec table) {
  table.wire_precision = RoutingTableConfig::BF16;
  return table;
}

class WireContractTest : public ContractTest {};

TEST_F(WireContractTest, ResultsAreNearThoseOfFloat32) {
  CheckNearFloat32(
      {Rounded(Table(1, {1}, 3, 0, false)), Rounded(Table(2, {2}, 3, 1, true)), Rounded(Table(3, {1, 2}, 2, 0, false)),
       Rounded(Split({{"ip1", SplitConfig::INPUTS}, {"ip2", SplitConfig::NONE}}, Table(2, {3}, 2, 0, false))),
       Rounded(Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {2}, 3, 1, false), true))});
}

TEST_F(WireContractTest, TheNumberOfReplicasAndMicroBatchesChangesLittle) {
  const ClusterSpec plain = Table(1, {1}, 2, 0, false);
  CheckAlike(plain, {Rounded(plain), Rounded(Table(3, {1}, 2, 1, true)), Rounded(Table(2, {1}, 3, 0, false))}, 0.2);
}

/// Two stages on one node send each other nothing; what they read is rounded all the same.
TEST_F(WireContractTest, WhichNodeHasAStageChangesNoBit) {
  const std::string solver = Solver("", false, 6);
  ClusterSpec apart;
  apart.stages = {{"kind: CONV to_layer: 'relu1'", 1},
                  {"kind: CONV from_layer: 'pool1' to_layer: 'pool2'", 1},
                  {"kind: FC from_layer: 'ip1'", 2}};
  apart.micro_batches = 3;
  ClusterSpec together = apart;
  together.stages[1].on = {0};
  together.stages[2].on = {0};
  const ClusterResult a = Train(Rounded(apart), solver), b = Train(Rounded(together), solver);
  EXPECT_EQ(a.params, b.params);
  EXPECT_GT(LargestDifference(a, Train(apart, solver)), 1e-4);
}

/// A blob that crosses and is read on its own node as well: "conv1" by relu2's stage and by its own.
TEST_F(WireContractTest, ReadersOnTheWritersNodeReadWhatCrosses) {
  const std::string net =
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 8 "
      "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'conv2' type: 'Convolution' bottom: 'conv1' top: 'conv2' convolution_param { num_output: 8 "
      "kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'conv1' bottom: 'conv2' top: 'sum' }\n"
      "layer { name: 'relu' type: 'ReLU' bottom: 'sum' top: 'sum' }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'sum' top: 'ip1' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }\n";
  const std::string solver = SolverOf(net, "", 0.02, 0.002, 4);
  ClusterSpec table;
  table.stages = {{"kind: CONV to_layer: 'conv2'", 1}, {"kind: CONV from_layer: 'sum'", 1}};
  table.micro_batches = 2;
  ClusterSpec cut = table;
  cut.stages = {{"kind: CONV to_layer: 'conv1'", 1},
                {"kind: CONV from_layer: 'conv2' to_layer: 'conv2'", 1},
                {"kind: CONV from_layer: 'sum'", 1}};
  const ClusterResult plain = Train(table, solver), rounded = Train(Rounded(table), solver),
                      cut_as_well = Train(Rounded(cut), solver);
  EXPECT_GT(LargestDifference(rounded, plain), 1e-5);
  // Conv2 reads the same numbers in both, so the first loss is the same to the bit.
  EXPECT_EQ(cut_as_well.losses.at(0), rounded.losses.at(0));
  EXPECT_NE(plain.losses.at(0), rounded.losses.at(0));
}

/// Images, and numbers made of them that name rows of a table (257 would become 256): what no parameter has touched.
TEST_F(WireContractTest, DataStaysAsItIs) {
  const std::string net =
      "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'flat' }\n"
      "layer { name: 'words' type: 'ArgMax' bottom: 'flat' top: 'words' argmax_param { axis: 1 top_k: 6 } }\n"
      "layer { name: 'tiny' type: 'Pooling' bottom: 'data' top: 'tiny' pooling_param { pool: AVE kernel_size: 5 "
      "stride: 5 } }\n"
      "layer { name: 'table' type: 'Embed' bottom: 'words' top: 'table' embed_param { input_dim: 300 num_output: 9 "
      "weight_filler { type: 'gaussian' std: 0.5 } } }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'table' top: 'ip1' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'tiny' top: 'ip2' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'ip1' bottom: 'ip2' top: 'sum' }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'sum' bottom: 'label' top: 'loss' }\n";
  const std::string solver = SolverOf(net, "", 0.02, 0.002, 5);
  ClusterSpec table = Table(2, {1}, 2, 0, false);
  table.ends = {"tiny"};
  table.fc_starts = {"table"};
  EXPECT_EQ(Train(Rounded(table), solver).params, Train(table, solver).params);
}

/// Gradients of conv replicas are rounded, each once and their sum once. Moving averages are sums over replicas, too,
/// and are not: in the first update they come from the weights that both runs begin with.
TEST_F(WireContractTest, GradientsOfReplicasAreRoundedAndMovingAveragesAreNot) {
  const std::string net =
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 6 "
      "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv1' top: 'norm' }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'norm' top: 'ip1' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }\n";
  const std::string solver = SolverOf(net, "", 0.02, 0.002, 1);
  for (const int replicas : {2, 3}) {
    SCOPED_TRACE(testing::Message() << replicas << " replicas");
    const ClusterSpec table = Table(replicas, {}, 1, 0, false);
    const ClusterResult plain = Train(table, solver), rounded = Train(Rounded(table), solver);
    for (const auto& [name, values] : plain.params) {
      const double difference = RelativeDifference(rounded.params.at(name), values);
      if (name.starts_with("norm")) {
        EXPECT_LT(difference, 1e-6) << name;  // added in another order
      } else if (name.starts_with("conv1.0") || name.starts_with("ip1")) {
        EXPECT_GT(difference, 1e-6) << name << ": nothing was rounded";
        EXPECT_LT(difference, 0.02) << name;
      }
    }
  }
}

TEST_F(WireContractTest, SameBitsWhateverArrivesFirst) {
  CheckSameBits(Rounded(Table(3, {2}, 2, 1, false)), Solver("", false, 8), {1, 2});
}

TEST_F(WireContractTest, OtherTypesAreRefused) {
  ClusterSpec table = Table(1, {1}, 1, 0, false);
  table.wire_precision = RoutingTableConfig::FP16;
  const ClusterResult result = TrainCluster(table, Solver("", false, 1));
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status.message(), testing::HasSubstr("wire_precision is FP16; expected FP32 or BF16"));
}

}  // namespace
}  // namespace hp::test
