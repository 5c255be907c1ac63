// The contract for layers that compute numbers of a row or a window: Reduction, ArgMax, MVN and stochastic pooling, in
// a conv stage and in a sharded FC stage.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

/// No bias in front of a mean that is subtracted: its gradient is zero, and rounding is all that it learns.
std::string RowLayers(bool in_place) {
  const std::string norm1 = in_place ? "conv1" : "norm1", norm2 = in_place ? "square" : "norm2";
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
         "  convolution_param { num_output: 6 kernel_size: 3 bias_term: false weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'norm1' type: 'MVN' bottom: 'conv1' top: '" +
         norm1 +
         "' mvn_param { eps: 0.1 } }\n"
         "layer { name: 'mean1' type: 'Reduction' bottom: '" +
         norm1 +
         "' top: 'mean1' reduction_param { operation: ASUM axis: 2 coeff: 0.02 } }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: '" +
         norm1 +
         "' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } }\n"
         "layer { name: 'flat1' type: 'Flatten' bottom: 'pool1' top: 'flat1' }\n"
         "layer { name: 'both1' type: 'Concat' bottom: 'flat1' bottom: 'mean1' top: 'both1' }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'both1' top: 'ip1'"
         "  inner_product_param { num_output: 40 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'best' type: 'ArgMax' bottom: 'ip1' top: 'best' argmax_param { top_k: 2 } }\n"
         "layer { name: 'little' type: 'Power' bottom: 'best' top: 'little' power_param { scale: 0.001 } }\n"
         "layer { name: 'flat2' type: 'Flatten' bottom: 'little' top: 'flat2' }\n"
         "layer { name: 'square' type: 'Reshape' bottom: 'ip1' top: 'square' reshape_param { shape { dim: 0 dim: 4 "
         "dim: "
         "10 } } }\n"
         "layer { name: 'norm2' type: 'MVN' bottom: 'square' top: '" +
         norm2 +
         "' mvn_param { across_channels: true eps: 0.1 } }\n"
         "layer { name: 'sums2' type: 'Reduction' bottom: '" +
         norm2 +
         "' top: 'sums2' reduction_param { operation: SUMSQ axis: 2 coeff: 0.1 } }\n"
         "layer { name: 'flat3' type: 'Flatten' bottom: '" +
         norm2 +
         "' top: 'flat3' }\n"
         "layer { name: 'both2' type: 'Concat' bottom: 'flat3' bottom: 'sums2' bottom: 'flat2' top: 'both2' }\n"
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'both2' top: 'ip2' inner_product_param { num_output: 5 "
         "weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

TEST_F(ContractTest, ReductionsInPlaceAndNot) {
  ClusterSpec table = Table(2, {2}, 3, 1, false);
  table.ends = {"both1"};
  std::map<std::string, std::vector<float>> params;
  for (const bool in_place : {false, true}) {
    const std::string solver = SolverOf(RowLayers(in_place), "");
    Check(solver, {table, Split({{"ip2", SplitConfig::INPUTS}}, table)});
    const ClusterResult result = TrainCluster({}, solver);
    ASSERT_TRUE(result.status.ok()) << result.status;
    if (in_place) {
      EXPECT_EQ(result.params, params);
    }
    params = result.params;
  }
}

/// One in the first stage, one in the sharded one.
std::string StochasticLayers() {
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
         "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { pool: STOCHASTIC "
         "kernel_size: 3 stride: 2 } }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1' top: 'ip1'"
         "  inner_product_param { num_output: 64 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'relu2' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
         "layer { name: 'image' type: 'Reshape' bottom: 'ip1' top: 'image' reshape_param { shape { dim: 0 dim: 4 dim: "
         "4 "
         "dim: 4 } } }\n"
         "layer { name: 'pool2' type: 'Pooling' bottom: 'image' top: 'pool2' pooling_param { pool: STOCHASTIC "
         "kernel_size: 2 stride: 1 } }\n"
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'pool2' top: 'ip2' inner_product_param { num_output: 5 "
         "weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

TEST_F(ContractTest, StochasticPoolingDrawsTheSameUnderAnyTable) {
  ClusterSpec table = Table(2, {2}, 3, 1, false), more = Table(3, {3}, 1, 0, false);
  table.ends = more.ends = {"pool1"};
  Check(SolverOf(StochasticLayers(), ""), {table, more});
}

}  // namespace
}  // namespace hp::test
