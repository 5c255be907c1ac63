// The contract for layers with an axis of their own: products of transposed weights, split in each way, and of leading
// axes as rows; Concat, Slice, Softmax and ArgMax along other axes than the channels.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

std::string Layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& fields) {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + name + "' " + fields +
         " }\n";
}

std::string Product(const std::string& name, const std::string& bottom, int outputs, const std::string& fields = "") {
  return Layer(name, "InnerProduct", bottom,
               "inner_product_param { num_output: " + std::to_string(outputs) +
                   " weight_filler { type: 'xavier' } bias_filler { type: 'constant' value: 0.1 } " + fields + " }");
}

/// conv1 [N, 6, 8, 8] and pool1 [N, 6, 4, 4].
std::string Front() {
  return Layer("conv1", "Convolution", "data",
               "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }") +
         Layer("pool1", "Pooling", "conv1", "pooling_param { kernel_size: 2 stride: 2 }");
}

const char* const kLoss = "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' }\n";

ClusterSpec Nodes(int conv, std::vector<int> fc, int micro, int pool = 0) {
  ClusterSpec table = Table(conv, std::move(fc), micro, pool, false);
  table.ends = {"pool1", "relu1"};
  return table;
}

TEST_F(ContractTest, TransposedWeightsAreSplitInEachWay) {
  const std::string transposed = "transpose: true";
  const std::string net = Front() + Product("ip1", "pool1", 40, transposed) +
                          "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n" +
                          Product("ip2", "ip1", 31, transposed) + Product("ip3", "ip2", 5, transposed) + kLoss;
  const auto inputs = SplitConfig::INPUTS;
  Check(SolverOf(net, ""),
        {Nodes(2, {2}, 3, 1), Nodes(1, {3}, 2), Split({{"ip1", inputs}, {"ip2", inputs}}, Nodes(2, {2}, 2)),
         Split({{"ip1", inputs}, {"ip3", inputs}}, Nodes(2, {3}, 1), /*scattered=*/true),
         Split({{"ip2", SplitConfig::NONE}}, Nodes(2, {1, 2}, 2)), Nodes(2, {}, 2)});
}

/// lines [N, 6, 4, 9] and sums [N, 6, 7] in the first stage, ip1 [N, 40] in the sharded one.
TEST_F(ContractTest, ProductsOfOtherAxes) {
  const std::string net = Front() + Product("lines", "pool1", 9, "axis: -1 transpose: true") +
                          "layer { name: 'relu2' type: 'ReLU' bottom: 'lines' top: 'lines' }\n" +
                          Product("sums", "lines", 7, "axis: 2") + Product("ip1", "sums", 40) +
                          "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n" + Product("ip3", "ip1", 5) +
                          kLoss;
  ClusterSpec table = Nodes(2, {2}, 3, 1), all = Nodes(2, {1}, 2);
  table.ends = {"sums"};
  all.fc_starts = {"lines"};  // one shard computes them as well
  Check(SolverOf(net, ""), {table, Split({{"ip1", SplitConfig::INPUTS}}, table), all, Nodes(3, {}, 1)});
}

TEST_F(ContractTest, AProductOfAnotherAxisIsNotSplit) {
  const std::string net = Front() + Product("lines", "pool1", 9, "axis: 2") + Product("ip3", "lines", 5) + kLoss;
  ClusterSpec table = Nodes(1, {2}, 1);
  table.fc_starts = {"lines"};
  const ClusterResult result = TrainCluster(table, SolverOf(net, ""));
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(result.status.message().find("\"lines\" (InnerProduct) can't be split over the 2 shards"),
            std::string::npos)
      << result.status;
}

/// In the first stage pixels are softmaxed along rows and joined along columns; in the sharded one a square of outputs
/// is sliced along its last axis, softmaxed along axis 2, and joined again.
TEST_F(ContractTest, ConcatSliceAndSoftmaxAlongOtherAxes) {
  const std::string net =
      Front() + Layer("soft1", "Softmax", "pool1", "softmax_param { axis: -2 }") +
      "layer { name: 'join1' type: 'Concat' bottom: 'soft1' bottom: 'pool1' top: 'join1' concat_param { axis: -1 } }\n"
      "layer { name: 'join2' type: 'Concat' bottom: 'join1' bottom: 'join1' top: 'join2' concat_param { concat_dim: 2 "
      "} }\n" +
      Product("ip1", "join2", 40) +
      Layer("square", "Reshape", "ip1", "reshape_param { shape { dim: 0 dim: 5 dim: 8 } }") +
      "layer { name: 'cut' type: 'Slice' bottom: 'square' top: 'a' top: 'b' slice_param { axis: -1 slice_point: 3 } "
      "}\n" +
      Layer("soft2", "Softmax", "b", "softmax_param { axis: 2 }") +
      "layer { name: 'join3' type: 'Concat' bottom: 'soft2' bottom: 'a' top: 'join3' concat_param { axis: 2 } }\n" +
      Product("ip3", "join3", 5) + kLoss;
  ClusterSpec table = Nodes(2, {2}, 3, 1);
  table.ends = {"join2"};
  Check(SolverOf(net, ""), {table, Split({{"ip1", SplitConfig::INPUTS}}, table), Nodes(2, {}, 2)});
}

/// A label for each line of pixels, of which some do not count, where they are read; one for each row on shards.
TEST_F(ContractTest, ClassesAlongOtherAxes) {
  const auto labelled = [](const std::string& name, const std::string& type, const std::string& bottoms,
                           const std::string& fields) {
    return "layer { name: '" + name + "' type: '" + type + "' " + bottoms + " top: '" + name + "' " + fields + " }\n";
  };
  const std::string kinds = "bottom: 'lines' bottom: 'kinds'";
  const std::string net =
      SideSource("top: 'kinds'", {"dim: 6 dim: 4"}, {"type: 'uniform' min: 0 max: 8.99"}) + Front() +
      Product("lines", "pool1", 9, "axis: -1") +
      labelled("far", "SoftmaxWithLoss", kinds,
               "loss_weight: 0.3 softmax_param { axis: -1 } loss_param { ignore_label: 0 }") +
      labelled("right", "Accuracy", kinds, "accuracy_param { axis: 3 ignore_label: 0 } include { phase: TEST }") +
      Product("ip1", "pool1", 40) + "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n" +
      Product("ip3", "ip1", 5) +
      Layer("scores", "Reshape", "ip3", "reshape_param { shape { dim: 0 dim: 1 dim: -1 } }") +
      labelled("loss", "SoftmaxWithLoss", "bottom: 'scores' bottom: 'label'", "softmax_param { axis: 2 }") +
      labelled("top2", "Accuracy", "bottom: 'scores' bottom: 'label'",
               "accuracy_param { axis: -1 top_k: 2 } include { phase: TEST }");
  ClusterSpec table = Nodes(2, {2}, 3, 1);
  table.ends = {"right"};
  Check(SolverOf(net, ""), {table, Split({{"ip1", SplitConfig::INPUTS}}, table), Nodes(3, {}, 2)});
}

}  // namespace
}  // namespace hp::test
