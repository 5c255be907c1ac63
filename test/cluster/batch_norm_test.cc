// The contract for layers that normalise by the rows of a micro-batch: what a table computes is what one process
// computes that divides a batch alike, the statistics of tests and snapshots included.
#include "test/cluster/contract_fixture.h"

#include <algorithm>

namespace hp::test {
namespace {

/// Where three rows are all that a mean is of, rounding grows from one iteration to the next; slowly at this rate.
constexpr double kRate = 0.002;

std::string Norm(const std::string& number, const std::string& bottom, const std::string& top,
                 const std::string& fields) {
  return "layer { name: 'norm" + number + "' type: 'BatchNorm' bottom: '" + bottom + "' top: '" + top +
         "' param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } batch_norm_param { "
         "moving_average_fraction: 0.9 eps: 0.05 " +
         fields + " } }\nlayer { name: 'scale" + number + "' type: 'Scale' bottom: '" + top + "' top: '" + top +
         "' scale_param { bias_term: true } }\n";
}

/// In place and not, behind convolutions and a product. No biases in front of a mean that is subtracted: their
/// gradients are zero, and rounding is all that they learn.
std::string Layers(const std::string& fields = "") {
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 16 "
         "kernel_size: 3 bias_term: false weight_filler { type: 'msra' } } }\n" +
         Norm("1", "conv1", "conv1", fields) +
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
         "layer { name: 'conv2' type: 'Convolution' bottom: 'conv1' top: 'conv2' convolution_param { num_output: 6 "
         "kernel_size: 3 stride: 2 bias_term: false weight_filler { type: 'msra' } } }\n" +
         Norm("2", "conv2", "norm2", fields) +
         "layer { name: 'relu2' type: 'ReLU' bottom: 'norm2' top: 'norm2' }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'norm2' top: 'ip1' inner_product_param { num_output: 40 "
         "bias_term: false weight_filler { type: 'xavier' } } }\n" +
         Norm("3", "ip1", "ip1", fields) +
         "layer { name: 'relu3' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' inner_product_param { num_output: 5 "
         "weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'accuracy' include { phase: "
         "TEST } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

/// The same net without a layer that works in place.
std::string ApartLayers() {
  std::string layers = Layers();
  const auto replace = [&layers](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = layers.find(from, at)) != std::string::npos; at += to.size()) {
      layers.replace(at, from.size(), to);
    }
  };
  for (const auto& [blob, number] : {std::pair<std::string, std::string>{"conv1", "1"}, {"norm2", "2"}, {"ip1", "3"}}) {
    const std::string own = "bottom: '" + blob + "' top: '" + blob + "'", layer = "layer { name: '";
    const std::string normed = blob == "norm2" ? blob : "normed" + number;
    replace(layer + "norm" + number + "' type: 'BatchNorm' " + own,
            layer + "norm" + number + "' type: 'BatchNorm' bottom: '" + blob + "' top: '" + normed + "'");
    replace(layer + "scale" + number + "' type: 'Scale' " + own,
            layer + "scale" + number + "' type: 'Scale' bottom: '" + normed + "' top: 'scaled" + number + "'");
    replace(layer + "relu" + number + "' type: 'ReLU' " + own,
            layer + "relu" + number + "' type: 'ReLU' bottom: 'scaled" + number + "' top: 'relu" + number + "'");
  }
  replace("name: 'conv2' type: 'Convolution' bottom: 'conv1'", "name: 'conv2' type: 'Convolution' bottom: 'relu1'");
  replace("name: 'ip1' type: 'InnerProduct' bottom: 'norm2'", "name: 'ip1' type: 'InnerProduct' bottom: 'relu2'");
  replace("name: 'ip2' type: 'InnerProduct' bottom: 'ip1'", "name: 'ip2' type: 'InnerProduct' bottom: 'relu3'");
  return layers;
}

ClusterSpec Nodes(int conv, std::vector<int> fc, int micro, bool tcp = false) {
  ClusterSpec spec = Table(conv, std::move(fc), micro, 0, tcp);
  spec.ends = {"relu2", "relu3"};
  return spec;
}

class BatchNormTest : public ContractTest {};

// 11 rows as 4, 4, 3.
TEST_F(BatchNormTest, EqualsOneProcessWithTheSameDivision) {
  Check(SolverOf(Layers(), "", kRate), Nodes(1, {}, 3),
        {Nodes(3, {}, 1), Nodes(1, {2}, 3), Nodes(3, {2}, 1, true), Nodes(3, {1, 2}, 1)});
}

// A layer's gradients are those of what it was given, also where its parameters' come after its input's.
TEST_F(BatchNormTest, InPlaceOrNotIsTheSame) {
  for (const ClusterSpec& table : {Nodes(1, {}, 3), Nodes(3, {2}, 1)}) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult in_place = TrainCluster(table, SolverOf(Layers(), "", kRate, 0.002, 5));
    const ClusterResult apart = TrainCluster(table, SolverOf(ApartLayers(), "", kRate, 0.002, 5));
    ASSERT_TRUE(in_place.status.ok() && apart.status.ok()) << in_place.status << apart.status;
    EXPECT_EQ(in_place.params, apart.params);
  }
}

// Two residual blocks: ReLUs in place are done by the normalisation, the sum and the split of readers next to them.
TEST_F(BatchNormTest, ReluOfResidualBlocksInPlaceOrNotIsTheSame) {
  const auto conv = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
           "' convolution_param { num_output: 16 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } "
           "} }\n";
  };
  const auto block = [&](const std::string& number, const std::string& bottom, const std::string& apart) {
    const std::string a = "a" + number, b = "b" + number, sum = "sum" + number;
    return conv(a, bottom) + Norm(a, a, a, "") + "layer { name: 'relu" + a + "' type: 'ReLU' bottom: '" + a +
           "' top: '" + apart + a + "' }\n" + conv(b, apart + a) + Norm(b, b, b, "") + "layer { name: '" + sum +
           "' type: 'Eltwise' bottom: '" + bottom + "' bottom: '" + b + "' top: '" + sum + "' }\nlayer { name: 'relu" +
           sum + "' type: 'ReLU' bottom: '" + sum + "' top: '" + apart + sum + "' }\n";
  };
  const auto layers = [&](const std::string& apart) {
    return conv("conv", "data") + block("1", "conv", apart) + block("2", apart + "sum1", apart) +
           "layer { name: 'pool' type: 'Pooling' bottom: '" + apart +
           "sum2' top: 'pool' pooling_param { pool: AVE global_pooling: true } }\n"
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' inner_product_param { num_output: 5 "
           "weight_filler { type: 'xavier' } } }\n"
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
  };
  for (const int replicas : {1, 3}) {
    const ClusterSpec table = Table(replicas, {}, 3 / replicas, 0, false);
    SCOPED_TRACE(Describe(table));
    const ClusterResult in_place = TrainCluster(table, SolverOf(layers(""), "", kRate, 0.002, 5));
    const ClusterResult apart = TrainCluster(table, SolverOf(layers("relu of "), "", kRate, 0.002, 5));
    ASSERT_TRUE(in_place.status.ok() && apart.status.ok()) << in_place.status << apart.status;
    EXPECT_EQ(in_place.params, apart.params);
  }
}

TEST_F(BatchNormTest, TheDivisionCounts) {
  const ClusterResult whole = TrainCluster(Nodes(1, {}, 1), SolverOf(Layers(), "", kRate, 0.002, 5));
  const ClusterResult thirds = TrainCluster(Nodes(1, {}, 3), SolverOf(Layers(), "", kRate, 0.002, 5));
  ASSERT_TRUE(whole.status.ok() && thirds.status.ok()) << whole.status << thirds.status;
  EXPECT_GT(RelativeDifference(thirds.params.at("norm1.1"), whole.params.at("norm1.1")), 1e-3);
  EXPECT_LT(RelativeDifference(thirds.params.at("norm1.2"), whole.params.at("norm1.2")), 1e-6);
}

// Ten sub-batches of two an iteration, each keeping 0.9: what blob 2 adds up does not depend on the data.
TEST_F(BatchNormTest, TheWeightsOfTheAveragesAddUp) {
  const ClusterResult result = TrainCluster(Nodes(3, {2}, 2), SolverOf(Layers(), "", kRate, 0.002, 5));
  ASSERT_TRUE(result.status.ok()) << result.status;
  double weight = 0;
  for (int sub_batch = 0; sub_batch < 10; ++sub_batch) weight = 0.9 * weight + 1;
  for (const char* name : {"norm1.2", "norm2.2", "norm3.2"}) {
    EXPECT_NEAR(result.params.at(name)[0], weight, 1e-5) << name;
  }
}

/// Two branches, as siamese nets have them: all that they learn or gather is theirs together.
std::string BranchedLayers(const std::string& fields = "") {
  const auto branch = [&](const std::string& number, const std::string& bottom) {
    const std::string conv = "conv" + number, none = "param { lr_mult: 0 }";
    std::string layers =
        "layer { name: '" + conv + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + conv +
        "' param { name: 'w' } convolution_param { num_output: 16 kernel_size: 3 bias_term: false weight_filler { "
        "type: 'msra' } } }\n" +
        Norm(number, conv, conv, fields) + "layer { name: 'relu" + number + "' type: 'ReLU' bottom: '" + conv +
        "' top: '" + conv + "' }\n";
    for (const char* const name : {"m", "v", "s"}) {
      layers.replace(layers.find(none), none.size(), "param { name: '" + std::string(name) + "' }");
    }
    return layers;
  };
  return branch("1", "data") +
         "layer { name: 'darker' type: 'Power' bottom: 'data' top: 'darker' power_param { scale: 0.5 shift: -0.2 } "
         "}\n" +
         branch("2", "darker") +
         "layer { name: 'both' type: 'Eltwise' bottom: 'conv1' bottom: 'conv2' top: 'both' }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'both' top: 'ip1' inner_product_param { num_output: 5 "
         "weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip1' bottom: 'label' top: 'accuracy' include { phase: "
         "TEST } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }\n";
}

TEST_F(BatchNormTest, BranchesShareTheirAverages) {
  const auto nodes = [](int conv, std::vector<int> fc, int micro) {
    ClusterSpec spec = Nodes(conv, std::move(fc), micro);
    spec.ends = {"both"};
    return spec;
  };
  Check(SolverOf(BranchedLayers(), "", kRate), nodes(1, {}, 3), {nodes(3, {}, 1), nodes(3, {2}, 1)});
  const ClusterResult result = TrainCluster(nodes(3, {2}, 1), SolverOf(BranchedLayers(), "", kRate, 0.002, 5));
  ASSERT_TRUE(result.status.ok()) << result.status;
  double weight = 0;
  for (int sub_batch = 0; sub_batch < 10; ++sub_batch) weight = 0.9 * (0.9 * weight + 1) + 1;
  EXPECT_NEAR(result.params.at("norm1.2")[0], weight, 1e-5);
  EXPECT_FALSE(result.params.contains("norm2.2"));
}

/// The first convolution and its scale learn nothing, so that no gradient goes below the second one.
std::string FrozenLayers() {
  std::string layers = Layers();
  for (const auto& [field, frozen] :
       {std::pair{"top: 'conv1' convolution_param", "top: 'conv1' param { lr_mult: 0 } convolution_param"},
        std::pair{"top: 'conv1' scale_param", "top: 'conv1' param { lr_mult: 0 } param { lr_mult: 0 } scale_param"}}) {
    layers.replace(layers.find(field), std::string(field).size(), frozen);
  }
  return layers;
}

TEST_F(BatchNormTest, FrozenLayersHaveStatisticsToo) {
  const std::string solver = SolverOf(FrozenLayers(), "", kRate);
  Check(solver, Nodes(1, {}, 3), {Nodes(3, {2}, 1), Nodes(3, {1, 2}, 1)});
  const ClusterResult learning = TrainCluster(Nodes(3, {2}, 1), SolverOf(Layers(), "", kRate, 0.002, 5));
  const ClusterResult frozen = TrainCluster(Nodes(3, {2}, 1), SolverOf(FrozenLayers(), "", kRate, 0.002, 5));
  ASSERT_TRUE(learning.status.ok() && frozen.status.ok()) << learning.status << frozen.status;
  EXPECT_NE(frozen.params.at("conv1.0"), learning.params.at("conv1.0"));
  EXPECT_EQ(frozen.params.at("norm1.2"), learning.params.at("norm1.2")) << "as many batches";
}

/// Replicas add what else they sum in other pieces, and so in another order: a last digit.
constexpr double kOrder = 1e-6;

/// Layers() with a product that sends no gradient down, and no layer below it that would learn by one.
std::string CutLayers(const std::string& cut) {
  std::string layers = Layers();
  const std::string product = "name: 'ip1' type: 'InnerProduct'";
  layers.replace(layers.find(product), product.size(), product + cut);
  return layers;
}

/// As in Caffe, whose forward pass gathers them: also where no gradient comes. Nothing below the cut learns, so at a
/// rate of 0 there is no difference.
TEST_F(BatchNormTest, LayersThatNoGradientReachesHaveStatisticsToo) {
  const std::string cut = " propagate_down: false";
  Check(SolverOf(CutLayers(cut), "", kRate), Nodes(1, {}, 3),
        {Nodes(3, {}, 1), Nodes(1, {2}, 3), Nodes(3, {2}, 1, true), Nodes(3, {1, 2}, 1)});
  for (const ClusterSpec& table : {Nodes(1, {}, 3), Nodes(3, {1, 2}, 1)}) {
    const ClusterResult with = TrainCluster(table, SolverOf(CutLayers(cut), "", 0, 0, 5));
    const ClusterResult without = TrainCluster(table, SolverOf(Layers(), "", 0, 0, 5));
    ASSERT_TRUE(with.status.ok() && without.status.ok()) << with.status << without.status;
    EXPECT_LT(LargestDifference(with, without), kOrder);
    EXPECT_NE(with.params.at("norm1.0"), std::vector<float>(16));
  }
}

/// Averages are taken anew by a training without a loss.
TEST_F(BatchNormTest, GathersWithoutALoss) {
  std::string layers = Layers();
  layers.erase(layers.find("layer { name: 'loss'"));
  const ClusterResult without = TrainCluster(Nodes(3, {2}, 1), SolverOf(layers, "", kRate, 0.002, 5));
  const ClusterResult with = TrainCluster(Nodes(3, {2}, 1), SolverOf(Layers(), "", 0, 0, 5));
  ASSERT_TRUE(with.status.ok() && without.status.ok()) << with.status << without.status;
  EXPECT_LT(LargestDifference(without, with), kOrder);
}

/// Branches share them, of which one gets no gradient.
TEST_F(BatchNormTest, SharedAveragesGatherWhereNoGradientComes) {
  std::string layers = BranchedLayers();
  const std::string both = "type: 'Eltwise' bottom: 'conv1' bottom: 'conv2'";
  layers.replace(layers.find(both), both.size(), both + " propagate_down: true propagate_down: false");
  ClusterSpec one = Nodes(1, {}, 3), three = Nodes(3, {2}, 1);
  one.ends = three.ends = {"both"};
  Check(SolverOf(layers, "", kRate), one, {three});
  const ClusterResult cut = TrainCluster(three, SolverOf(layers, "", 0, 0, 5));
  const ClusterResult whole = TrainCluster(three, SolverOf(BranchedLayers(), "", 0, 0, 5));
  ASSERT_TRUE(cut.status.ok() && whole.status.ok()) << cut.status << whole.status;
  EXPECT_LT(LargestDifference(cut, whole), kOrder);
}

/// The loss is so large that its scaled gradients overflow.
TEST_F(BatchNormTest, ASkippedUpdateChangesNoStatistic) {
  std::string layers = Layers();
  const std::string loss = "top: 'loss' }";
  layers.replace(layers.find(loss), loss.size(), "top: 'loss' loss_weight: 1e30 }");
  for (const bool skipped : {false, true}) {
    ClusterSpec table = Nodes(3, {2}, 1);
    if (skipped) {
      table.precision = RoutingTableConfig::FP16;
      table.loss_scaling.emplace().set_initial(0x1p100);
    }
    const ClusterResult result = TrainCluster(table, SolverOf(layers, "", 1e-30, 0, 1));
    ASSERT_TRUE(result.status.ok()) << result.status;
    for (const char* name : {"norm1.0", "norm2.1", "norm3.2"}) {
      const std::vector<float>& values = result.params.at(name);
      EXPECT_EQ(std::count(values.begin(), values.end(), 0.0f) == std::ssize(values), skipped) << name;
    }
  }
}

TEST_F(BatchNormTest, StatisticsAreNoGradients) {
  // A norm that counted them would be far above this one.
  Check(SolverOf(Layers(), "clip_gradients: 0.5", kRate), Nodes(1, {}, 3), {Nodes(3, {2}, 1)});
}

TEST_F(BatchNormTest, ParameterServersAddThem) {
  ClusterSpec served = Nodes(3, {2}, 1);
  served.ps = {{0, 2}};
  Check(SolverOf(Layers(), "", kRate), Nodes(1, {}, 3), {served});
}

TEST_F(BatchNormTest, LateUpdatesToo) {
  ClusterSpec one = Nodes(1, {}, 3), three = Nodes(3, {2}, 1);
  one.staleness = three.staleness = 1;
  Check(SolverOf(Layers(), "", kRate), one, {three});
}

TEST_F(BatchNormTest, OtherSolverTypesLeaveThemAlone) {
  Check(SolverOf(Layers(), "type: 'Nesterov' momentum: 0.9", kRate), Nodes(1, {}, 3), {Nodes(3, {2}, 1)});
}

// With the statistics of a snapshot; from then on nothing depends on the division.
TEST_F(BatchNormTest, GlobalStatisticsDoNotDependOnTheDivision) {
  const std::string prefix = NewPrefix();
  const ClusterResult first = TrainCluster(
      Nodes(3, {2}, 1), SolverOf(Layers(), "snapshot: 5 snapshot_prefix: '" + prefix + "'", kRate, 0.002, 5));
  ASSERT_TRUE(first.status.ok()) << first.status;
  ClusterSpec one, many = Nodes(3, {2}, 2);
  one.weights = many.weights = prefix + "_iter_5.caffemodel";
  Check(SolverOf(Layers("use_global_stats: true"), "", kRate), one, {many});
}

TEST_F(BatchNormTest, GoesOnFromItsSnapshot) {
  const std::string prefix = NewPrefix();
  const std::string solver = SolverOf(Layers(), "snapshot: 5 snapshot_prefix: '" + prefix + "'", kRate, 0.002, 10);
  const ClusterResult whole = TrainCluster(Nodes(3, {2}, 1), solver);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (ClusterSpec table : {Nodes(3, {2}, 1), Nodes(1, {3}, 3)}) {
    SCOPED_TRACE(Describe(table));
    table.resume = prefix + "_iter_5.solverstate";
    const ClusterResult resumed = TrainCluster(table, solver);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    for (const auto& [name, values] : whole.params) {
      EXPECT_LT(RelativeDifference(resumed.params.at(name), values), table.conv == 3 ? 1e-30 : 1e-4) << name;
    }
  }
}

TEST_F(BatchNormTest, TheSameBitsWhateverTheDelays) {
  CheckSameBits(Nodes(3, {2}, 2), SolverOf(Layers(), "", kRate, 0.002, 10), {1, 2});
}

}  // namespace
}  // namespace hp::test
