// The contract for Embed: tables in a conv stage, whose gradients replicas exchange, and on the lead of a sharded FC
// stage, alone and shared by two layers.
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

std::string Layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& fields = "", const std::string& top = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         (top.empty() ? name : top) + "' " + fields + " }\n";
}

std::string Product(const std::string& name, const std::string& bottom, int outputs, const std::string& fields = "") {
  return Layer(name, "InnerProduct", bottom,
               fields + "inner_product_param { num_output: " + std::to_string(outputs) +
                   " weight_filler { type: 'xavier' } bias_term: false }");
}

/// @param rows of the table; numbers are below 300.
std::string Embed(const std::string& name, int outputs, const std::string& fields = "", int rows = 300) {
  return Layer(name, "Embed", "words",
               fields + "embed_param { input_dim: " + std::to_string(rows) + " num_output: " + std::to_string(outputs) +
                   " weight_filler { type: 'gaussian' std: 0.3 } }");
}

/// `words`, the places of each image's six brightest elements, many of them in several images, in the first stage;
/// `both`, its last layer, has what they are in a table there, and what a convolution sees. Then ip1.
std::string Front(const std::string& embed) {
  return Layer("flat", "Flatten", "data") + Layer("words", "ArgMax", "flat", "argmax_param { axis: 1 top_k: 6 }") +
         embed +
         Layer("conv1", "Convolution", "data",
               "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }") +
         Layer("pool1", "Pooling", "conv1", "pooling_param { kernel_size: 2 stride: 2 }") +
         Layer("flat1", "Flatten", "pool1") + Layer("flat2", "Flatten", "of_words") +
         "layer { name: 'both' type: 'Concat' bottom: 'flat1' bottom: 'flat2' top: 'both' }\n" +
         Product("ip1", "both", 40) + Layer("tanh1", "TanH", "ip1", "", "ip1");
}

std::string Sum(const std::string& a, const std::string& b) {
  return "layer { name: 'sum' type: 'Eltwise' bottom: '" + a + "' bottom: '" + b + "' top: 'sum' }\n";
}

std::string Loss(const std::string& bottom) {
  return "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: '" + bottom + "' bottom: 'label' top: 'loss' }\n";
}

ClusterSpec Nodes(int conv, std::vector<int> fc, int micro, int pool = 0) {
  ClusterSpec table = Table(conv, std::move(fc), micro, pool, false);
  table.ends = {"both"};
  return table;
}

/// The words go to the FC stage as well, and have other rows there.
TEST_F(ContractTest, TablesInBothStages) {
  const std::string net = Front(Embed("of_words", 9)) + Embed("fc_words", 7) + Layer("flat3", "Flatten", "fc_words") +
                          Product("ip2", "ip1", 5) + Product("ip3", "flat3", 5) + Sum("ip2", "ip3") + Loss("sum");
  Check(SolverOf(net, ""), {Nodes(2, {2}, 3, 1), Nodes(3, {1}, 1),
                            Split({{"ip2", SplitConfig::INPUTS}, {"ip3", SplitConfig::NONE}}, Nodes(2, {3}, 2))});
}

/// One table for two layers of the first stage, of which the second has a bias of its own.
TEST_F(ContractTest, SharedTables) {
  const std::string net =
      Front(Embed("a", 9, "param { name: 'table' lr_mult: 2 } param { name: 'bias' } ") +
            Embed("b", 9, "param { name: 'table' } ") +
            "layer { name: 'of_words' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'of_words' eltwise_param { "
            "operation: PROD } }\n") +
      Product("ip2", "ip1", 5) + Loss("ip2");
  Check(SolverOf(net, ""), {Nodes(2, {2}, 3, 1), Nodes(3, {}, 2)});
}

/// Rows that are looked up below are multiplied above.
TEST_F(ContractTest, ATableTiedToAProduct) {
  const std::string net = Front(Embed("of_words", 9)) + Embed("fc_words", 7, "param { name: 'table' } ") +
                          Layer("flat3", "Flatten", "fc_words") + Product("ip2", "ip1", 7) +
                          Product("ip3", "flat3", 7) + Sum("ip2", "ip3") + Layer("tanh2", "TanH", "sum", "", "sum") +
                          Product("tied", "sum", 300, "param { name: 'table' } ") + Loss("tied");
  Check(SolverOf(net, ""), {Split({{"tied", SplitConfig::NONE}}, Nodes(2, {2}, 3, 1)), Nodes(2, {1}, 2)});
}

/// A number that names no row of the table ends the training.
TEST_F(ContractTest, NumbersBeyondTheTable) {
  const std::string net = Front(Embed("of_words", 9, "", 200)) + Product("ip2", "ip1", 5) + Loss("ip2");
  for (const ClusterSpec& table : {ClusterSpec(), Nodes(2, {2}, 2)}) {
    const ClusterResult result = TrainCluster(table, SolverOf(net, ""));
    EXPECT_EQ(result.status.code(), StatusCode::kNumeric) << result.status;
    EXPECT_THAT(result.status.message(), testing::HasSubstr("iteration 0: layer"));
  }
}

}  // namespace
}  // namespace hp::test
