// The contract where layers share parameters: two towers in the conv and the FC stage, with all blobs in common or the
// weights alone, and a product that is used twice in a row. test/reference has NumPy's beside it.
#include "checkpoint/snapshot.h"
#include "checkpoint/weights.h"
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

using testing::HasSubstr;

std::string Layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& fields, const std::string& top = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         (top.empty() ? name : top) + "' " + fields + " }\n";
}

/// param entries of these names; the first layer says the factors.
std::string Named(const std::string& weights, const std::string& bias, bool first) {
  const std::string of_weights = first ? " lr_mult: 1 decay_mult: 2" : "",
                    of_bias = first ? " lr_mult: 2 decay_mult: 0" : "";
  return "param { name: '" + weights + "'" + of_weights + " } " +
         (bias.empty() ? "" : "param { name: '" + bias + "'" + of_bias + " } ");
}

std::string Convolution(const std::string& name, const std::string& bottom, const std::string& params) {
  return Layer(name, "Convolution", bottom,
               params + "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }");
}

std::string Product(const std::string& name, const std::string& bottom, int outputs, const std::string& params) {
  return Layer(
      name, "InnerProduct", bottom,
      params + "inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } }");
}

/// The convolutions of both towers in front; the products follow, those of a pair behind each other.
std::string Towers() {
  std::string net =
      "layer { name: 'pair' type: 'Slice' bottom: 'data' top: 'left' top: 'right' top: 'rest' slice_param { axis: 1 } "
      "}\n"
      "layer { name: 'unused' type: 'Silence' bottom: 'rest' }\n";
  for (const bool first : {true, false}) {
    const std::string side = first ? "left" : "right", p = first ? "" : "_p";
    net += Convolution("conv1" + p, side, Named("conv1_w", "conv1_b", first)) +
           Layer("relu1" + p, "ReLU", "conv1" + p, "", "conv1" + p) +
           Layer("pool1" + p, "Pooling", "conv1" + p, "pooling_param { kernel_size: 2 stride: 2 }") +
           Layer("conv2" + p, "Convolution", "pool1" + p,
                 Named("conv2_w", "", first) +
                     "convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } }") +
           Layer("relu2" + p, "ReLU", "conv2" + p, "", "conv2" + p);
  }
  const auto both = [&](const auto& layer) { net += layer("", true) + layer("_p", false); };
  both([](const std::string& p, bool first) {
    return Product("ip1" + p, "conv2" + p, 40, Named("ip1_w", "ip1_b", first));
  });
  both([](const std::string& p, bool) { return Layer("relu3" + p, "ReLU", "ip1" + p, "", "ip1" + p); });
  both([](const std::string& p, bool first) { return Product("ip2" + p, "ip1" + p, 24, Named("ip2_w", "", first)); });
  return net + Layer("apart", "Eltwise", "ip2' bottom: 'ip2_p", "eltwise_param { coeff: 1 coeff: -1 }") +
         Product("again1", "apart", 24, Named("again_w", "again_b", true)) +
         Layer("relu4", "ReLU", "again1", "", "again1") +
         Product("again2", "again1", 24, Named("again_w", "again_b", false)) +
         Layer("sum", "Eltwise", "again2' bottom: 'apart", "") + Product("ip3", "sum", 5, "") +
         Layer("loss", "SoftmaxWithLoss", "ip3' bottom: 'label", "");
}

/// FC stages from ip1, and from apart.
ClusterSpec Nodes(int conv, std::vector<int> fc, int micro, int pool = 0, bool tcp = false) {
  ClusterSpec table = Table(conv, std::move(fc), micro, pool, tcp);
  if (table.fc.size() == 2) table.fc_starts = {"ip1", "apart"};
  table.ends = {"relu2_p", "ip2_p"};
  return table;
}

ClusterSpec Served(int servers, ClusterSpec table) {
  table.ps = {{0, servers}};
  return table;
}

ClusterSpec Stale(int staleness, ClusterSpec table = {}) {
  table.staleness = staleness;
  return table;
}

constexpr auto kInputs = SplitConfig::INPUTS, kNone = SplitConfig::NONE;

class SharedContractTest : public ContractTest {
 protected:
  static std::string SolverOfTowers(const std::string& extra, int iterations = 50) {
    return SolverOf(Towers(), extra, 0.02, 0.002, iterations);
  }
};

TEST_F(SharedContractTest, ReplicasShardsAndMicroBatches) {
  Check(SolverOfTowers(""), {Nodes(2, {}, 3), Nodes(3, {2}, 2, 1), Nodes(1, {3}, 4, 2, true), Nodes(2, {1, 3}, 2)});
}

TEST_F(SharedContractTest, SplitsAndBoundaries) {
  Check(SolverOfTowers(""),
        {Split({{"ip2", kInputs}, {"ip2_p", kInputs}}, Nodes(2, {2}, 2)),
         Split({{"ip1", kInputs}, {"ip1_p", kInputs}, {"again1", kNone}, {"again2", kNone}}, Nodes(1, {3}, 2, 1)),
         Split({}, Nodes(2, {2}, 3), true)});
}

TEST_F(SharedContractTest, ParameterServers) {
  Check(SolverOfTowers(""),
        {Served(1, Nodes(2, {}, 2, 1)), Served(3, Nodes(3, {2}, 2)), Served(2, Nodes(2, {2}, 1, 0, true))});
}

TEST_F(SharedContractTest, NodesWithSeveralParts) {
  ClusterSpec table;
  table.stages = {{"kind: CONV layer: 'data' layer: 'pair' layer: 'conv1*' layer: 'relu1*' layer: 'pool1*' layer: "
                   "'unused'",
                   2},
                  {"kind: CONV layer: 'conv2*' layer: 'relu2*'", 2, {0, 1}},
                  {"kind: FC from_layer: 'ip1'", 2, {0}}};
  table.micro_batches = 2;
  Check(SolverOfTowers(""), {table});
}

// What is shared counts once in the norm.
TEST_F(SharedContractTest, ClippedGradients) {
  Check(SolverOfTowers("clip_gradients: 0.5"), {Nodes(2, {2}, 3, 1), Served(2, Nodes(3, {1}, 1))});
}

TEST_F(SharedContractTest, TwoHistories) {
  Check(SolverOfTowers("type: 'Adam' momentum: 0.9 delta: 0.01"), {Nodes(2, {3}, 2)});
}

TEST_F(SharedContractTest, Staleness) {
  Check(SolverOfTowers(""), Stale(2), {Stale(2, Nodes(2, {2}, 3)), Stale(2, Served(2, Nodes(2, {1}, 2)))});
}

TEST_F(SharedContractTest, SameBitsWhateverArrivesFirst) {
  CheckSameBits(Nodes(2, {3}, 3, 0), SolverOfTowers("", 12), {1, 2});
  CheckSameBits(Stale(1, Nodes(2, {2}, 2, 0)), SolverOfTowers("", 12), {3});
}

TEST_F(SharedContractTest, GoesOnFromASnapshotUnderAnotherTable) {
  const ClusterResult whole = TrainCluster(ClusterSpec(), SolverOfTowers(""));
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (const std::string format : {"", " snapshot_format: HDF5"}) {
    const std::string prefix = NewPrefix();
    const std::string solver = SolverOfTowers("snapshot: 20 snapshot_prefix: '" + prefix + "'" + format);
    const ClusterResult first = TrainCluster(Nodes(2, {2}, 2), solver);
    ASSERT_TRUE(first.status.ok()) << first.status;
    const bool hdf5 = !format.empty();
    const auto model = ReadCaffeModel(SnapshotModelPath(prefix, 20) + (hdf5 ? ".h5" : ""));
    ASSERT_TRUE(model.ok()) << model.status();
    // As Caffe has it: a .caffemodel with each layer's blobs, HDF5 with those of owners alone.
    EXPECT_EQ(model->Find("ip1_p", 0) == nullptr, hdf5);
    EXPECT_EQ(model->Find("ip2_p", 0) == nullptr, hdf5);
    ASSERT_NE(model->Find("ip2_p", 1), nullptr) << "its bias is its own";
    EXPECT_NE(model->Find("ip2_p", 1)->data, model->Find("ip2", 1)->data);
    if (!hdf5) {
      EXPECT_EQ(model->Find("ip1_p", 0)->data, model->Find("ip1", 0)->data);
      EXPECT_EQ(model->Find("conv1_p", 1)->data, model->Find("conv1", 1)->data);
    }
    ClusterSpec resumed = Split({{"ip2", kInputs}, {"ip2_p", kInputs}}, Nodes(1, {3}, 3));
    resumed.resume = SnapshotStatePath(prefix, 20);
    ClusterResult reference = whole;
    std::erase_if(reference.losses, [](const auto& loss) { return loss.first < 20; });
    const ClusterResult second = TrainCluster(resumed, solver);
    ASSERT_TRUE(second.status.ok()) << second.status;
    Compare(second, reference);
  }
}

TEST_F(SharedContractTest, WeightsAreReadByAnyName) {
  const std::string prefix = NewPrefix(), file = prefix + ".caffemodel";
  const std::vector<float> left(24 * 24, 0.25f), right(24 * 24, -0.5f), bias(24, 0.125f);
  caffe::NetParameter net;
  net.add_layer()->set_name("again2");
  ASSERT_TRUE(
      WriteCaffeModel(file, net, {{{"again2", 0}, {{24, 24}, left.data()}}, {{"again2", 1}, {{24}, bias.data()}}})
          .ok());
  ClusterSpec table = Nodes(1, {2}, 1);
  table.weights = file;
  const std::string solver = SolverOfTowers("", 0);
  const auto trained = [&] {
    const ClusterResult result = TrainCluster(table, solver);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.params;
  };
  EXPECT_EQ(trained().at("again1.0"), left) << "the file has the second layer alone";
  EXPECT_EQ(trained().at("again1.1"), bias);
  net.add_layer()->set_name("again1");
  ASSERT_TRUE(WriteCaffeModel(file, net,
                              {{{"again2", 0}, {{24, 24}, left.data()}},
                               {{"again2", 1}, {{24}, bias.data()}},
                               {{"again1", 0}, {{24, 24}, right.data()}}})
                  .ok());
  EXPECT_EQ(trained().at("again1.0"), left) << "of two the last of the net, as Caffe reads them one after the other";
}

/// A convolution and a deconvolution of two bottoms each. @param apart with a layer for each bottom.
std::string WithPairsOfBottoms(bool apart) {
  const auto pair = [&](const std::string& name, const std::string& type, const std::string& fields) {
    const std::string below = name == "conv" ? "" : "conv_", specs = " param { name: '" + name + "_w' lr_mult: 2 } ";
    const auto one = [&](const std::string& side, const std::string& own_name) {
      return Layer(own_name, type, below + side, specs + "param { name: '" + name + "_b' } " + fields,
                   name + "_" + side);
    };
    if (apart) return one("left", name) + one("right", name + "_p");
    const std::string tops = name + "_left' top: '" + name + "_right";
    return Layer(name, type, below + "left' bottom: '" + below + "right", "param { lr_mult: 2 } " + fields, tops);
  };
  return "layer { name: 'pair' type: 'Slice' bottom: 'data' top: 'left' top: 'right' top: 'rest' slice_param { axis: 1 "
         "} }\nlayer { name: 'unused' type: 'Silence' bottom: 'rest' }\n" +
         pair("conv", "Convolution",
              "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }") +
         pair("up", "Deconvolution",
              "convolution_param { num_output: 3 kernel_size: 2 stride: 2 weight_filler { type: 'xavier' } }") +
         Layer("apart", "Eltwise", "up_left' bottom: 'up_right", "eltwise_param { coeff: 1 coeff: -0.5 }") +
         Product("ip1", "apart", 20, "") + Layer("relu", "ReLU", "ip1", "", "ip1") + Product("ip2", "ip1", 5, "") +
         Layer("loss", "SoftmaxWithLoss", "ip2' bottom: 'label", "");
}

TEST_F(SharedContractTest, ConvolutionsOfSeveralBottoms) {
  const std::string solver = SolverOf(WithPairsOfBottoms(false), "");
  ClusterSpec shards = Table(1, {2}, 2, 1, true), served = Served(1, Table(2, {2}, 2, 0, false));
  shards.ends = served.ends = {"apart"};
  Check(solver, {Nodes(2, {}, 3), shards, served});
  const ClusterResult together = TrainCluster(ClusterSpec(), solver);
  const ClusterResult apart = TrainCluster(ClusterSpec(), SolverOf(WithPairsOfBottoms(true), ""));
  ASSERT_TRUE(together.status.ok() && apart.status.ok()) << together.status << apart.status;
  EXPECT_EQ(together.losses, apart.losses);
  EXPECT_EQ(together.params.at("conv.0"), apart.params.at("conv.0"));
  EXPECT_EQ(together.params.at("up.1"), apart.params.at("up.1"));
}

TEST_F(SharedContractTest, LayersOfTwoStagesAreRefused) {
  ClusterSpec table = Table(1, {1}, 1, 0, false);
  table.fc_starts = {"ip1_p"};
  table.ends = {"ip1"};
  const ClusterResult result = TrainCluster(table, SolverOfTowers(""));
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status.message(),
              HasSubstr("layers \"ip1\" and \"ip1_p\" share the parameter \"ip1_w\", but are in stages"));
}

}  // namespace
}  // namespace hp::test
