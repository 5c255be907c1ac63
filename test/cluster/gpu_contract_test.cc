// The contract with nodes on GPUs, alone and beside nodes on CPUs. The GPUs are those of the file that the program is
// linked with: fakes, each of a node's own, which run the same kernels on the host, late and in any order that the
// node's marks allow, and whose memory nobody else can touch; or the first real one of this host, which all nodes
// share.
#include "checkpoint/snapshot.h"
#include "test/cluster/contract_fixture.h"
#include "test/cluster/gpu_under_test.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

/// Which nodes of a table compute on GPUs.
enum Where { kEverywhere, kConv, kFc, kOddNodes };

/// @param table its nodes have the precision that it has now.
ClusterSpec OnGpus(Where where, ClusterSpec table) {
  table.device_copies = TransportConfig::OFF;  // the table says of nobody that it is on a GPU
  table.open_device = [where, precision = table.precision, conv = table.conv](Rank rank) -> StatusOr<NodeDevice> {
    const bool gpu = where == kEverywhere || (where == kConv && rank < conv) || (where == kFc && rank >= conv) ||
                     (where == kOddNodes && rank % 2 == 1);
    if (!gpu) return OpenCpu(precision);
    return OpenGpuUnderTest(rank, precision);
  };
  return table;
}

class GpuContractTest : public ContractTest {};

TEST_F(GpuContractTest, OneGpu) { Check(Solver(""), {OnGpus(kEverywhere, Table(1, {}, 3, 0, false))}); }

TEST_F(GpuContractTest, GpusAlone) {
  Check(Solver(""),
        {OnGpus(kEverywhere, Table(2, {2}, 3, 0, false)), OnGpus(kEverywhere, Table(2, {2, 1}, 2, 1, true))});
}

TEST_F(GpuContractTest, ConvLayersOnCpusAndFcLayersOnGpusAndTheReverse) {
  Check(Solver(""), {OnGpus(kFc, Table(2, {2}, 3, 1, true)), OnGpus(kConv, Table(2, {2}, 3, 1, true)),
                     OnGpus(kConv, Table(3, {1, 2}, 2, 0, false)), OnGpus(kFc, Table(2, {4}, 5, 2, false))});
}

TEST_F(GpuContractTest, ReplicasAndShardsOfOneStageOnDifferentDevices) {
  Check(Solver(""), {OnGpus(kOddNodes, Table(3, {3}, 2, 0, false)), OnGpus(kOddNodes, Table(2, {2, 2}, 3, 1, true))});
}

/// The table says that nodes are on GPUs, so tensors go from GPU to GPU where these let them: the one real GPU reaches
/// its own memory.
TEST_F(GpuContractTest, NodesThatMayCopyToEachOther) {
  ClusterSpec table = OnGpus(kEverywhere, Table(1, {2}, 3, 1, true));
  table.device_of = [](Rank rank) { return "cuda:" + std::to_string(rank); };
  table.device_copies = TransportConfig::ON;
  Check(Solver(""), {table});
}

TEST_F(GpuContractTest, SplitsAndScatteredBoundaries) {
  Check(Solver(""), {OnGpus(kEverywhere, Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {2}, 3, 1, false), true)),
                     OnGpus(kOddNodes, Split({{"ip1", SplitConfig::INPUTS}, {"ip2", SplitConfig::NONE}},
                                             Table(2, {3}, 2, 0, true)))});
}

/// Ports to several replicas, some on GPUs and some not, and nodes with two segments of replicas.
TEST_F(GpuContractTest, SetsOfLayers) {
  ClusterSpec cut, back;
  cut.stages = {{"kind: CONV to_layer: 'relu1'", 2},
                {"kind: CONV from_layer: 'pool1' to_layer: 'pool2'", 4},
                {"kind: FC from_layer: 'ip1'", 2}};
  back.stages = {{"kind: CONV", 2}, {"kind: FC layer: 'ip?' layer: 'relu3' layer: 'drop1' layer: 'relu4'", 3}};
  cut.micro_batches = back.micro_batches = 2;
  cut.pool_size = 1;
  ClusterSpec both = cut;
  both.stages[1].parts = 2;
  both.stages[2].on = {1, 0};
  Check(Solver(""), {OnGpus(kEverywhere, cut), OnGpus(kOddNodes, cut), OnGpus(kOddNodes, back),
                     OnGpus(kEverywhere, both), OnGpus(kOddNodes, both)});
}

/// They are on the device behind the images, whichever segment reads them; how many count is not.
TEST_F(GpuContractTest, LabelsOfPixels) {
  ClusterSpec conv, hybrid;
  conv.conv = 2, conv.micro_batches = 3;
  hybrid.stages = {{"kind: CONV", 2}, {"kind: FC layer: 'deep/*'", 2}};
  hybrid.micro_batches = 2, hybrid.pool_size = 1;
  Check(SolverOfPixels({}), {OnGpus(kEverywhere, conv), OnGpus(kOddNodes, hybrid)});
}

/// Norms of weights are kept for each version of them. 120 classes: gradients that wait for the whole update; 5: ones
/// that are added up.
TEST_F(GpuContractTest, NormalisedHeadsWithAMargin) {
  for (const char* classes : {"5", "120"}) {
    const NetHead head = {std::string("normalize: true bias_term: false num_output: ") + classes,
                          "margin_param { scale: 8 angle: 0.3 cosine: 0.1 }"};
    Check(Solver("", false, 50, 1, head),
          {OnGpus(kEverywhere, Table(1, {}, 2, 0, false)), OnGpus(kEverywhere, Table(2, {3}, 3, 1, false)),
           OnGpus(kOddNodes, Table(1, {3}, 2, 0, true))});
  }
}

TEST_F(GpuContractTest, Deconvolutions) {
  ClusterSpec table = Table(2, {2}, 3, 1, false);
  table.ends = {"pool3"};
  Check(SolverOf(NetWithDeconvolutions("type: 'xavier'"), ""),
        {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kConv, table), OnGpus(kOddNodes, table)});
}

/// Rows of 7 x 7 and 11 x 11 values end between two units of the 16 bytes that a convolution's ends begin at, and those
/// of a micro-batch lie in a matrix behind others', which the products' gradients are computed from in one go.
TEST_F(GpuContractTest, ConvolutionsOfOneChannelBesideDeferredProducts) {
  const std::string net =
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 1 "
      "kernel_size: 4 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'conv1' top: 'ip1' inner_product_param { num_output: 121 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'image' type: 'Reshape' bottom: 'ip1' top: 'image' reshape_param { shape { dim: 0 dim: 1 dim: 11 "
      "dim: "
      "11 } } }\n"
      "layer { name: 'conv2' type: 'Convolution' bottom: 'image' top: 'conv2' convolution_param { num_output: 4 "
      "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'relu2' type: 'ReLU' bottom: 'conv2' top: 'conv2' }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'conv2' top: 'ip2' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
  Check(SolverOf(net, ""),
        {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kEverywhere, Table(1, {}, 4, 2, false))});
}

/// A table in the first stage, and a matrix that each op has in its GPU's memory.
TEST_F(GpuContractTest, EmbedAndInfogainLoss) {
  std::string gains;
  for (int i = 0; i < 25; ++i) gains += " data: " + std::string(i % 6 == 0 ? "1" : i % 2 == 0 ? "0.1" : "0.05");
  const std::string net =
      "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'flat' }\n"
      "layer { name: 'words' type: 'ArgMax' bottom: 'flat' top: 'words' argmax_param { axis: 1 top_k: 6 } }\n"
      "layer { name: 'table' type: 'Embed' bottom: 'words' top: 'table' embed_param { input_dim: 300 num_output: 9 "
      "weight_filler { type: 'gaussian' std: 0.5 } } }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'table' top: 'ip1' inner_product_param { num_output: 40 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'tanh1' type: 'TanH' bottom: 'ip1' top: 'ip1' }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'InfogainLoss' bottom: 'ip2' bottom: 'label' top: 'loss' infogain_loss_param { "
      "matrix {" +
      gains + " } } loss_param { ignore_label: 2 } }\n";
  ClusterSpec table = Table(2, {2}, 3, 1, false);
  table.ends = {"table"};
  Check(SolverOf(net, ""), {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kOddNodes, table)});
}

/// Labels that others read as an ordinary blob, and labels that are computed: both are in a GPU's memory.
TEST_F(GpuContractTest, LabelsAsABlob) {
  const auto product = [](const std::string& name, const std::string& bottom, int outputs) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name +
           "' inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } } }\n";
  };
  const std::string net =
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 6 "
      "kernel_size: 3 weight_filler { type: 'xavier' } } }\n" +
      product("ip1", "conv1", 20) + "layer { name: 'tanh1' type: 'TanH' bottom: 'ip1' top: 'ip1' }\n" +
      product("ip2", "ip1", 2) +
      "layer { name: 'high' type: 'Threshold' bottom: 'label' top: 'high' threshold_param { threshold: 1.5 } }\n"
      "layer { name: 'above' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'high' top: 'above' }\n" +
      product("ip3", "ip1", 1) +
      "layer { name: 'target' type: 'Power' bottom: 'label' top: 'target' power_param { scale: 0.5 shift: -1 } }\n"
      "layer { name: 'near' type: 'EuclideanLoss' bottom: 'target' bottom: 'ip3' top: 'near' loss_weight: 0.2 }\n" +
      product("ip4", "ip1", 5) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip4' bottom: 'label' top: 'loss' }\n";
  ClusterSpec table = Table(2, {1}, 3, 1, false);
  table.ends = {"conv1"};
  Check(SolverOf(net, ""), {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kOddNodes, table)});
}

/// Other tops lie behind the images and come to a GPU with them, numbers that tell how many of them count ahead; a blob
/// with a weight is summed up there.
TEST_F(GpuContractTest, SourcesBesideTheImages) {
  const std::string side =
      SideSource("top: 'kind' top: 'more' top: 'near' top: 'want'", {"", "dim: 2 dim: 8 dim: 8", "dim: 3", "dim: 2"},
                 {"type: 'uniform' min: 0 max: 3.99", "type: 'gaussian' std: 0.5", "type: 'gaussian' std: 0.5",
                  "type: 'uniform' max: 1.99"});
  const auto product = [](const std::string& name, const std::string& bottom, int outputs) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name +
           "' inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } } }\n";
  };
  const std::string net =
      side +
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 6 "
      "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'both' type: 'Concat' bottom: 'conv1' bottom: 'more' top: 'both' }\n" +
      product("ip1", "both", 20) +
      "layer { name: 'tanh1' type: 'TanH' bottom: 'ip1' top: 'ip1' loss_weight: 0.001 }\n"
      "layer { name: 'size' type: 'Reduction' bottom: 'ip1' top: 'size' loss_weight: 0.001 "
      "reduction_param { operation: SUMSQ } }\n" +
      product("ip2", "ip1", 4) +
      "layer { name: 'kinds' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'kind' top: 'kinds' loss_param { "
      "ignore_label: 1 } }\n" +
      product("ip5", "ip1", 2) +
      "layer { name: 'wanted' type: 'SigmoidCrossEntropyLoss' bottom: 'ip5' bottom: 'want' top: 'wanted' loss_weight: "
      "0.3 loss_param { ignore_label: 1 normalization: VALID } }\n" +
      product("ip3", "ip1", 3) +
      "layer { name: 'far' type: 'EuclideanLoss' bottom: 'ip3' bottom: 'near' top: 'far' loss_weight: 0.2 }\n" +
      product("ip4", "ip1", 5) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip4' bottom: 'label' top: 'loss' loss_param { "
      "ignore_label: 0 } }\n";
  ClusterSpec table = Table(2, {1}, 3, 1, false);
  table.ends = {"both"};
  Check(SolverOf(net, ""), {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kOddNodes, table)});
}

TEST_F(GpuContractTest, SamplesOfClassesAreRefused) {
  const std::string solver = Solver("", false, 5, 1, {"bias_term: false num_output: 120 sample_rate: 0.1", ""});
  const ClusterResult result = TrainCluster(OnGpus(kFc, Table(1, {2}, 2, 0, false)), solver);
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status.message(), testing::HasSubstr("layer \"ip3\": a sample_rate below 1 is computed on CPUs "
                                                          "alone"));
}

TEST_F(GpuContractTest, ConvNodesThatOnlyRead) {
  ClusterSpec table = Table(2, {1}, 2, 1, false);
  table.fc_starts = {"conv1"};
  table.ends = {"data"};
  Check(Solver(""), {OnGpus(kEverywhere, table)});
}

TEST_F(GpuContractTest, ClippedGradientsAndFrozenLayers) {
  Check(Solver("clip_gradients: 0.8"), {OnGpus(kEverywhere, Table(2, {2}, 3, 1, false))});
  Check(Solver("", true), {OnGpus(kOddNodes, Table(2, {2}, 3, 1, false))});
}

TEST_F(GpuContractTest, RatesByNorms) {
  Check(Solver("larc: true larc_eta: 0.05"), {OnGpus(kEverywhere, Table(2, {2}, 3, 1, false))});
  Check(Solver("larc: true larc_policy: 'clip' larc_eta: 0.01 clip_gradients: 0.8", true),
        {OnGpus(kOddNodes, Table(2, {2}, 3, 1, false))});
}

TEST_F(GpuContractTest, SolverTypes) {
  for (const char* type :
       {"type: 'Nesterov' momentum: 0.9", "type: 'AdaGrad' delta: 0.05", "type: 'RMSProp' rms_decay: 0.9 delta: 0.5",
        "type: 'AdaDelta' momentum: 0.9 delta: 0.01", "type: 'Adam' momentum: 0.9 delta: 0.5"}) {
    Check(Solver(type), {OnGpus(kOddNodes, Table(2, {2}, 3, 1, false))});
  }
}

/// Statistics and parameters of channels, against one process that divides a batch alike.
TEST_F(GpuContractTest, LayersWithNumbersForEachChannel) {
  const std::string channels =
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' batch_norm_param { "
      "moving_average_fraction: 0.9 eps: 0.05 } }\n"
      "layer { name: 'scale' type: 'Scale' bottom: 'norm' top: 'norm' scale_param { bias_term: true } }\n"
      "layer { name: 'prelu' type: 'PReLU' bottom: 'norm' top: 'prelu' }\n";
  const std::string layers =
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 6 "
      "kernel_size: 3 stride: 2 bias_term: false weight_filler { type: 'msra' } } }\n" +
      channels +
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'prelu' top: 'ip1' inner_product_param { num_output: 20 "
      "bias_term: false weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'bias' type: 'Bias' bottom: 'ip1' top: 'ip1' }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
  const auto nodes = [](int conv, std::vector<int> fc, int micro) {
    ClusterSpec spec = Table(conv, std::move(fc), micro, 0, false);
    spec.ends = {"prelu"};
    return spec;
  };
  Check(SolverOf(layers, "", 0.002), nodes(1, {}, 3),
        {OnGpus(kEverywhere, nodes(3, {2}, 1)), OnGpus(kOddNodes, nodes(3, {2}, 1)), OnGpus(kConv, nodes(1, {2}, 3))});
}

/// Factors of 16 bits on GPUs, alone and beside CPUs, whose convolutions have them too if they can. Roundings grow with
/// each iteration, by the units of a ReLU or a pooling window that they decide, so only a few iterations are compared.
/// A bias begins at 0 and is a sum of gradients alone, which such a unit changes most.
TEST_F(GpuContractTest, SixteenBits) {
  const std::string solver = Solver("", false, 4);
  const ClusterResult reference = TrainCluster({}, solver);
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  for (const auto& [precision, tolerance] :
       {std::pair{RoutingTableConfig::BF16, 0.03}, std::pair{RoutingTableConfig::FP16, 0.004}}) {
    for (const auto& [where, table] :
         {std::pair{kEverywhere, Table(1, {}, 3, 0, false)}, std::pair{kEverywhere, Table(2, {2, 1}, 2, 1, true)},
          std::pair{kEverywhere, Split({{"ip2", SplitConfig::INPUTS}}, Table(1, {2}, 3, 1, false), true)},
          std::pair{kConv, Table(2, {2}, 3, 1, false)}, std::pair{kOddNodes, Table(2, {2}, 3, 0, false)}}) {
      const bool beside = where == kOddNodes;
      if (beside && precision == RoutingTableConfig::BF16 && !CpuMultipliesBFloat16()) continue;
      SCOPED_TRACE(Describe(table) + ", precision " + RoutingTableConfig::Precision_Name(precision));
      ClusterSpec spec = table;
      spec.precision = precision;
      const ClusterResult result = TrainCluster(OnGpus(where, spec), solver);
      ASSERT_TRUE(result.status.ok()) << result.status;
      for (const auto& [name, values] : reference.params) {
        const double difference = RelativeDifference(result.params.at(name), values);
        EXPECT_LT(difference, name.ends_with(".1") ? 0.1 : tolerance) << name;
        EXPECT_GT(difference, 0) << name << ": nothing was rounded";
      }
      for (const auto& [clock, loss] : reference.losses) {
        EXPECT_NEAR(result.losses.at(clock), loss, tolerance * loss) << "iteration " << clock;
      }
    }
  }
}

/// Decided when all devices are open.
TEST_F(GpuContractTest, AutomaticPrecision) {
  const std::string solver = Solver("", false, 2);
  std::vector<ClusterResult> results;
  for (const auto precision : {RoutingTableConfig::AUTO, RoutingTableConfig::BF16}) {
    ClusterSpec spec = Table(1, {1}, 3, 0, false);
    spec.precision = precision;
    results.push_back(TrainCluster(OnGpus(kEverywhere, spec), solver));
    ASSERT_TRUE(results.back().status.ok()) << results.back().status;
  }
  EXPECT_EQ(results[0].params, results[1].params);
}

ClusterSpec Scaled(ClusterSpec table, double initial, int growth_interval) {
  table.precision = RoutingTableConfig::FP16;
  table.loss_scaling.emplace().set_initial(initial);
  table.loss_scaling->set_growth_interval(growth_interval);
  return table;
}

/// What crosses is rounded alike by CPUs and GPUs.
TEST_F(GpuContractTest, Bfloat16OnTheWire) {
  const std::string solver = Solver("", false, 3);
  ClusterSpec table = Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {2}, 3, 1, false), true);
  table.wire_precision = RoutingTableConfig::BF16;
  const ClusterResult reference = TrainCluster(table, solver);
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  for (const Where where : {kEverywhere, kOddNodes}) {
    const ClusterResult result = TrainCluster(OnGpus(where, table), solver);
    ASSERT_TRUE(result.status.ok()) << result.status;
    for (const auto& [name, values] : reference.params) {
      EXPECT_LT(RelativeDifference(result.params.at(name), values), 2e-3) << name;
    }
  }
}

/// GPUs read the scale from their memory, where every replay of a segment finds that of its iteration.
TEST_F(GpuContractTest, GrowingLossScale) {
  Check(Solver(""), {Scaled(OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), 4, 2),
                     Scaled(OnGpus(kOddNodes, Table(2, {2}, 3, 1, false)), 4, 2)});
}

/// The first updates overflow, and all nodes skip them.
TEST_F(GpuContractTest, SkippedUpdates) {
  constexpr int kIterations = 18;
  const std::string prefix = NewPrefix();
  const std::string snapshot = "snapshot: " + std::to_string(kIterations) + " snapshot_prefix: '" + prefix + "' ";
  const std::string solver = Solver(snapshot, false, kIterations, 0.8 * 0x1p40);
  const auto train = [&](const ClusterSpec& table) {
    const ClusterResult result = TrainCluster(Scaled(table, 0x1p94, 2000), solver);
    EXPECT_TRUE(result.status.ok()) << result.status;
    const auto saved = ReadSnapshot(SnapshotStatePath(prefix, kIterations));
    EXPECT_TRUE(saved.ok()) << saved.status();
    return std::pair(result, saved.ok() ? saved->manifest->loss_scaling().scale() : 0);
  };
  const auto [reference, scale] = train({});
  EXPECT_LT(scale, 0x1p92);
  for (const ClusterSpec& table :
       {OnGpus(kEverywhere, Table(1, {}, 3, 0, false)), OnGpus(kEverywhere, Table(2, {2}, 3, 1, false)),
        OnGpus(kOddNodes, Table(2, {2, 1}, 2, 0, true))}) {
    SCOPED_TRACE(Describe(table));
    const auto [result, same] = train(table);
    EXPECT_EQ(same, scale);
    Compare(result, reference);
  }
}

TEST_F(GpuContractTest, SameBits) {
  const std::string solver = Solver("", false, 8);
  CheckSameBits(OnGpus(kEverywhere, Table(2, {2}, 3, 2, false)), solver, {11, 12});
  CheckSameBits(OnGpus(kOddNodes, Table(3, {2}, 2, 0, true)), solver, {11});
}

}  // namespace
}  // namespace hp::test
