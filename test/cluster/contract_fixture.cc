#include "test/cluster/contract_fixture.h"

#include <cmath>

namespace hp::test {
namespace {

constexpr double kTolerance = 1e-4;

std::string Text(double value) {
  char text[40];
  snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

/// Layers "data" of both phases: batches of 11 and 7 images of 3 x 10 x 10, and labels below 5.
std::string DataLayers(const std::string& folder) {
  auto data = [&](const std::string& phase, const std::string& db, int batch, const std::string& transform) {
    return "layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: " + phase +
           " } data_param { source: '" + folder + "/" + db + "' batch_size: " + std::to_string(batch) +
           " shuffle: true } transform_param { scale: 0.0078125 mean_value: 120 crop_size: 10 " + transform + " } }\n";
  };
  return data("TRAIN", "train", 11, "mirror: true") + data("TEST", "test", 7, "");
}

std::string Layers(bool frozen, double loss_weight, const NetHead& head) {
  const std::string lr = frozen ? " param { lr_mult: 0 } param { lr_mult: 0 } "
                                : " param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 } ";
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'" + lr +
         "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { kernel_size: 3 stride: 2 "
         "} }\n"
         "layer { name: 'norm1' type: 'LRN' bottom: 'pool1' top: 'norm1' lrn_param { local_size: 3 alpha: 0.1 } }\n"
         "layer { name: 'conv2' type: 'Convolution' bottom: 'norm1' top: 'conv2'" +
         lr +
         "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 group: 2 weight_filler { type: 'msra' } } }\n"
         "layer { name: 'relu2' type: 'ReLU' bottom: 'conv2' top: 'conv2' }\n"
         "layer { name: 'pool2' type: 'Pooling' bottom: 'conv2' top: 'pool2' pooling_param { pool: AVE kernel_size: 2 "
         "stride: 2 } }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' param { lr_mult: 1 } param { lr_mult: 2 "
         "decay_mult: 0 }\n"
         "  inner_product_param { num_output: 150 weight_filler { type: 'gaussian' std: 0.1 } bias_filler { type: "
         "'constant' value: 0.1 } } }\n"
         "layer { name: 'relu3' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
         "layer { name: 'drop1' type: 'Dropout' bottom: 'ip1' top: 'ip1' dropout_param { dropout_ratio: 0.4 } }\n"
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'\n"
         "  inner_product_param { num_output: 130 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'relu4' type: 'ReLU' bottom: 'ip2' top: 'ip2' relu_param { negative_slope: 0.1 } }\n"
         "layer { name: 'ip3' type: 'InnerProduct' bottom: 'ip2' top: 'ip3'\n"
         "  inner_product_param { " +
         head.product +
         " weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip3' bottom: 'label' top: 'accuracy' include { phase: "
         "TEST } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' loss_param { "
         "ignore_label: 2 } loss_weight: " +
         Text(loss_weight) + " " + head.loss + " }\n";
}

std::string LayersOfPixels(const PixelHead& head) {
  const auto layer = [](const std::string& name, const std::string& type, const std::string& bottom,
                        const std::string& fields) {
    return "layer { name: '" + name + "' type: '" + type + "' top: '" + name + "' bottom: '" + bottom + "' " + fields +
           " }\n";
  };
  const std::string xavier = " weight_filler { type: 'xavier' } }", channels = std::to_string(head.channels);
  const std::string coarse = std::to_string(head.channels * 20);
  return "name: 'pixels'\n"
         "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {"
         "  shape { dim: 11 dim: 3 dim: 9 dim: 8 } shape { dim: 11 " +
         head.label_dims +
         " }"
         "  data_filler { type: 'gaussian' std: 1 } data_filler { type: 'uniform' " +
         head.labels + " } } }\n" +
         layer("conv1", "Convolution", "data", "convolution_param { num_output: 6 kernel_size: 3 pad: 1" + xavier) +
         layer("relu1", "ReLU", "conv1", "") +
         layer("pool1", "Pooling", "relu1", "pooling_param { kernel_size: 2 stride: 2 }") +
         layer("deep/ip1", "InnerProduct", "pool1", "inner_product_param { num_output: 30" + xavier) +
         layer("deep/relu", "ReLU", "deep/ip1", "") +
         layer("deep/ip2", "InnerProduct", "deep/relu", "inner_product_param { num_output: " + coarse + xavier) +
         layer("coarse", "Reshape", "deep/ip2",
               "reshape_param { shape { dim: 0 dim: " + channels + " dim: 5 dim: 4 } }") +
         layer("up", "Deconvolution", "coarse",
               "convolution_param { num_output: " + channels + " group: " + channels +
                   " bias_term: false kernel_size: 4 stride: 2 weight_filler { type: 'bilinear' } }") +
         layer("score", "Crop", "up", "bottom: 'data' crop_param { offset: 1 }") +
         (head.accuracy.empty()
              ? ""
              : layer("accuracy", "Accuracy", "score",
                      "bottom: 'label' include { phase: TEST } accuracy_param { " + head.accuracy + " }")) +
         "layer { name: 'loss' top: 'loss' bottom: 'score' bottom: 'label' " + head.loss + " }\n";
}

}  // namespace

TempFolder* ContractTest::folder_ = nullptr;

void ContractTest::SetUpTestSuite() {
  folder_ = new TempFolder;
  WriteRandomImages(*folder_ / "train", 90, 3, 12, 5, 1);
  WriteRandomImages(*folder_ / "test", 30, 3, 12, 5, 1);
}
void ContractTest::TearDownTestSuite() { delete folder_; }

std::string ContractTest::Solver(const std::string& extra, bool frozen, int iterations, double loss_weight,
                                 const NetHead& head) {
  return SolverOf(Layers(frozen, loss_weight, head), extra, 0.02 / loss_weight, 0.002 * loss_weight, iterations);
}

std::string ContractTest::SolverOf(const std::string& layers, const std::string& extra, double base_lr,
                                   double weight_decay, int iterations) {
  return SolverOfNet(DataLayers(folder_->path()) + layers, extra, base_lr, weight_decay, iterations);
}

std::string ContractTest::SolverOfNet(const std::string& layers, const std::string& extra, double base_lr,
                                      double weight_decay, int iterations) {
  static int count = 0;
  const std::string name = std::to_string(count++);
  const std::string net = *folder_ / (name + "_net.prototxt"), path = *folder_ / (name + "_solver.prototxt");
  WriteFile(net, "name: 'contract'\n" + layers);
  WriteFile(path,
            "net: '" + net + "'\nbase_lr: " + Text(base_lr) + " weight_decay: " + Text(weight_decay) +
                " lr_policy: 'step' gamma: 0.5 stepsize: 20\n" + (extra.starts_with("type:") ? "" : "momentum: 0.9 ") +
                "iter_size: 2 max_iter: " + std::to_string(iterations) +
                " test_iter: 2 test_interval: 9 random_seed: 7 snapshot_after_train: false display: 25\n" + extra);
  return path;
}

std::string ContractTest::SolverOfPixels(const PixelHead& head) {
  const std::string prefix = NewPrefix();
  WriteFile(prefix + "_net.prototxt", LayersOfPixels(head));
  WriteFile(prefix + "_solver.prototxt",
            "net: '" + prefix + "_net.prototxt'\nbase_lr: " + std::to_string(head.base_lr) +
                " weight_decay: 0.002 lr_policy: 'fixed' momentum: 0.9 iter_size: 2 max_iter: 50 test_iter: 2 "
                "test_interval: 9 random_seed: 7 snapshot_after_train: false display: 25\n");
  return prefix + "_solver.prototxt";
}

void ContractTest::Check(const std::string& solver, const std::vector<ClusterSpec>& tables) {
  Check(solver, ClusterSpec(), tables);
}

void ContractTest::Check(const std::string& solver, const ClusterSpec& one_process,
                         const std::vector<ClusterSpec>& tables) {
  const ClusterResult reference = TrainCluster(one_process, solver);
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  ASSERT_EQ(reference.losses.size(), 50u);
  EXPECT_LT(reference.losses.at(49), reference.losses.at(0)) << "nothing was learnt";
  for (const ClusterSpec& table : tables) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult result = TrainCluster(table, solver);
    ASSERT_TRUE(result.status.ok()) << result.status;
    Compare(result, reference);
  }
}
void ContractTest::Compare(const ClusterResult& result, const ClusterResult& reference) {
  ASSERT_EQ(result.params.size(), reference.params.size());
  for (const auto& [name, values] : reference.params) {
    EXPECT_LT(RelativeDifference(result.params.at(name), values), kTolerance) << name;
  }
  ASSERT_EQ(result.losses.size(), reference.losses.size());
  for (const auto& [clock, loss] : reference.losses) {
    EXPECT_NEAR(result.losses.at(clock), loss, kTolerance * std::abs(loss)) << "iteration " << clock;
  }
}

ClusterResult ContractTest::Train(const ClusterSpec& table, const std::string& solver) {
  ClusterResult result = TrainCluster(table, solver);
  EXPECT_TRUE(result.status.ok()) << Describe(table) << ": " << result.status;
  return result;
}

void ContractTest::CheckNearFloat32(const std::vector<ClusterSpec>& tables) {
  const std::string solver = Solver("", false, 4);
  const ClusterResult reference = Train({}, solver);
  for (const ClusterSpec& table : tables) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult result = Train(table, solver);
    for (const auto& [name, values] : reference.params) {
      const double difference = RelativeDifference(result.params.at(name), values);
      EXPECT_LT(difference, name.ends_with(".1") ? 0.15 : 0.03) << name;
      EXPECT_GT(difference, 0) << name << ": nothing was rounded";
    }
    for (const auto& [clock, loss] : reference.losses) EXPECT_NEAR(result.losses.at(clock), loss, 0.02 * loss);
  }
}

void ContractTest::CheckAlike(const ClusterSpec& plain, const std::vector<ClusterSpec>& rounded, double most,
                              const NetHead& head) {
  const std::string solver = Solver("", false, 3, 1, head);
  const ClusterResult first = Train(rounded[0], solver);
  const double rounding = LargestDifference(first, Train(plain, solver));
  EXPECT_GT(rounding, 1e-4);
  for (size_t i = 1; i < rounded.size(); ++i) {
    EXPECT_LT(LargestDifference(Train(rounded[i], solver), first), most * rounding) << Describe(rounded[i]);
  }
}

void ContractTest::CheckGoesOnUnderAnotherTable(const std::string& extra) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver(extra + " snapshot: 5 snapshot_prefix: '" + prefix + "'", false, 10);
  const ClusterResult whole = Train(Table(2, {2}, 2, 0, false), solver);
  ClusterSpec other = Table(1, {3}, 3, 0, false);
  other.resume = prefix + "_iter_5.solverstate";
  const ClusterResult resumed = Train(other, solver);
  for (const auto& [name, values] : whole.params) {
    EXPECT_LT(RelativeDifference(resumed.params.at(name), values), 1e-4) << name;
  }
}

double ContractTest::LargestDifference(const ClusterResult& a, const ClusterResult& b) {
  double largest = 0;
  for (const auto& [name, values] : b.params) {
    largest = std::max(largest, RelativeDifference(a.params.at(name), values));
  }
  return largest;
}
std::string ContractTest::NewPrefix() {
  static int count = 0;
  return *folder_ / ("snapshot" + std::to_string(count++));
}
std::string ContractTest::Describe(const ClusterSpec& spec) {
  std::string text;
  for (const ClusterStage& stage : spec.stages) {
    text += std::to_string(stage.parts) + " x {" + stage.config + "}";
    for (Rank rank : stage.on) text += " on " + std::to_string(rank);
    text += " ";
  }
  if (spec.stages.empty()) text = "conv " + std::to_string(spec.conv) + " fc";
  for (size_t stage = 0; stage < spec.fc.size(); ++stage) {
    text += " " + std::to_string(spec.fc[stage]) + " from " + spec.fc_starts[stage];
  }
  for (const auto& [layer, by] : spec.splits) text += " " + layer + ":" + SplitConfig::By_Name(by);
  if (spec.scattered) text += " scattered";
  for (const auto& [stage, servers] : spec.ps) {
    text += " " + std::to_string(servers) + " servers of stage " + std::to_string(stage);
  }
  for (int share : spec.shares) text += " share " + std::to_string(share);
  for (const std::string& host : spec.hosts) text += " on " + host;
  if (spec.staleness > 0) text += " staleness " + std::to_string(spec.staleness);
  return text + " micro " + std::to_string(spec.micro_batches) + " pool " + std::to_string(spec.pool_size) +
         " threads " + std::to_string(spec.threads) + (spec.tcp ? " tcp" : " inproc") +
         (spec.delay_seed != 0 ? " delayed" : "");
}

std::string NetOfInfiniteGradients(const std::string& layer) {
  const bool conv = layer == "conv1";
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 4 "
         "kernel_size: 3 weight_filler { type: 'gaussian' std: 0.1 } } }\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
         "layer { name: 'pool2' type: 'Power' bottom: 'conv1' top: 'pool2' power_param { " +
         std::string(conv ? "power: 0.5" : "scale: 3e38") +
         " } }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' inner_product_param { num_output: 5 "
         "weight_filler { type: 'constant' value: " +
         std::string(conv ? "0.01" : "0") +
         " } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' loss_weight: 1000 }\n";
}

std::string NetOfInfiniteSecondGradients() {
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' param { lr_mult: 0 } param { } "
         "convolution_param { num_output: 8 kernel_size: 3 bias_filler { type: 'constant' value: 0.5 } } }\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
         "layer { name: 'pool2' type: 'Power' bottom: 'conv1' top: 'pool2' power_param { power: 0.5 } }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' param { lr_mult: 0 } param { lr_mult: 0 "
         "} "
         "inner_product_param { num_output: 5 weight_filler { type: 'gaussian' std: 0.1 } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }\n";
}

std::string NetWithActivations(const std::string& fields, bool in_place) {
  const auto activation = [&](const std::string& name, const std::string& bottom, const std::string& top) {
    return "layer { name: '" + name + "' bottom: '" + bottom + "' top: '" + top + "' " + fields + " }\n";
  };
  const std::string a = in_place ? "conv1" : "act1", b = in_place ? "ip1" : "act2";
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
         "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n" +
         activation("act1", "conv1", a) + "layer { name: 'pool1' type: 'Pooling' bottom: '" + a +
         "' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1' top: 'ip1'"
         "  inner_product_param { num_output: 40 weight_filler { type: 'xavier' } } }\n" +
         activation("act2", "ip1", b) + "layer { name: 'ip2' type: 'InnerProduct' bottom: '" + b +
         "' top: 'ip2' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

std::string NetWithDeconvolutions(const std::string& filler) {
  const auto layer = [](const std::string& name, const std::string& type, const std::string& bottom,
                        const std::string& fields) {
    return "layer { name: '" + name + "' type: '" + type + "' top: '" + name + "' bottom: '" + bottom + "' " + fields +
           " }\n";
  };
  const std::string xavier = " weight_filler { type: 'xavier' } }", up = " weight_filler { " + filler + " } }";
  return layer("conv1", "Convolution", "data", "convolution_param { num_output: 6 kernel_size: 3" + xavier) +
         layer("relu1", "ReLU", "conv1", "") +
         layer("pool1", "Pooling", "relu1", "pooling_param { kernel_size: 2 stride: 2 }") +
         layer("score1", "Convolution", "pool1", "convolution_param { num_output: 4 kernel_size: 1" + xavier) +
         layer("up1", "Deconvolution", "score1",
               "param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 6 group: 2 "
               "kernel_size: 4 stride: 2 bias_filler { type: 'constant' value: 0.1 }" +
                   up) +
         layer("crop1", "Crop", "up1", "bottom: 'relu1' crop_param { offset: 1 }") +
         layer("sum1", "Eltwise", "crop1", "bottom: 'relu1'") +
         layer("pool2", "Pooling", "sum1", "pooling_param { pool: AVE kernel_size: 4 stride: 2 }") +
         layer("up2", "Deconvolution", "pool2",
               "convolution_param { num_output: 6 group: 6 bias_term: false kernel_size: 3 stride: 2 pad: 1" + up) +
         layer("pool3", "Pooling", "up2", "pooling_param { kernel_size: 3 stride: 2 }") +
         layer("ip1", "InnerProduct", "pool3", "inner_product_param { num_output: 30" + xavier) +
         layer("act1", "TanH", "ip1", "") +
         layer("ip2", "InnerProduct", "act1", "inner_product_param { num_output: 5" + xavier) +
         layer("loss", "SoftmaxWithLoss", "ip2", "bottom: 'label'");
}

// Batches are those of the data: 11 and 7.
std::string SideSource(const std::string& tops, const std::vector<std::string>& rows,
                       const std::vector<std::string>& fillers) {
  std::string text;
  for (const auto& [phase, batch] : {std::pair("TRAIN", "11"), std::pair("TEST", "7")}) {
    text += "layer { name: 'side' type: 'DummyData' " + tops + " include { phase: " + phase + " } dummy_data_param {";
    for (const std::string& row : rows) text += std::string(" shape { dim: ") + batch + " " + row + " }";
    for (const std::string& filler : fillers) text += " data_filler { " + filler + " }";
    text += " } }\n";
  }
  return text;
}

ClusterSpec Table(int conv, std::vector<int> fc, int micro, int pool, bool tcp) {
  ClusterSpec spec;
  spec.conv = conv;
  spec.fc = fc;
  spec.fc_starts = fc.size() == 2 ? std::vector<std::string>{"ip1", "ip2"} : std::vector<std::string>{"ip1"};
  spec.ends = {"pool2", "drop1"};
  spec.micro_batches = micro;
  spec.pool_size = pool;
  spec.tcp = tcp;
  return spec;
}

ClusterSpec Split(const std::map<std::string, SplitConfig::By>& splits, ClusterSpec spec, bool scattered) {
  spec.splits = splits;
  spec.scattered = scattered;
  return spec;
}

void CheckSameBits(ClusterSpec table, const std::string& solver, const std::vector<uint64_t>& delay_seeds) {
  const ClusterResult first = TrainCluster(table, solver);
  ASSERT_TRUE(first.status.ok()) << first.status;
  for (uint64_t seed : delay_seeds) {
    table.delay_seed = seed;
    const ClusterResult again = TrainCluster(table, solver);
    ASSERT_TRUE(again.status.ok()) << again.status;
    ASSERT_EQ(again.params.size(), first.params.size());
    for (const auto& [name, values] : first.params) {
      EXPECT_EQ(again.params.at(name), values) << name << ", delays of seed " << seed;
    }
    EXPECT_EQ(again.losses, first.losses) << "delays of seed " << seed;
  }
}

}  // namespace hp::test
