// The contract for layers with windows beside Convolution and Pooling: Deconvolution, with Crop and across a boundary,
// and Im2col.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

TEST_F(ContractTest, Deconvolutions) {
  ClusterSpec table = Table(2, {2}, 3, 1, false);
  table.ends = {"pool3"};
  ClusterSpec cut;
  cut.stages = {{"kind: CONV to_layer: 'score1'", 2},
                {"kind: CONV from_layer: 'up1' to_layer: 'pool3'", 4},
                {"kind: FC from_layer: 'ip1'", 2}};
  cut.micro_batches = 2, cut.pool_size = 1;
  ClusterSpec whole = Table(1, {1}, 2, 0, true);
  whole.fc_starts = {"up2"};
  whole.ends = {"pool2"};
  Check(SolverOf(NetWithDeconvolutions("type: 'xavier'"), ""), {table, cut, whole});
}

/// As FCN begins: every replica makes the same kernels.
TEST_F(ContractTest, DeconvolutionsThatInterpolate) {
  ClusterSpec table = Table(2, {2}, 2, 0, false);
  table.ends = {"pool3"};
  Check(SolverOf(NetWithDeconvolutions("type: 'bilinear'"), ""), {table});
}

/// A convolution in two steps in the first stage, and columns of the outputs of a sharded stage.
std::string Im2colLayers() {
  return "layer { name: 'columns1' type: 'Im2col' bottom: 'data' top: 'columns1' convolution_param { kernel_size: 3 "
         "stride: 2 pad: 1 } }\n"
         "layer { name: 'conv1' type: 'Convolution' bottom: 'columns1' top: 'conv1'"
         "  convolution_param { num_output: 6 kernel_size: 1 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
         "layer { name: 'columns2' type: 'Im2col' bottom: 'conv1' top: 'columns2' convolution_param { kernel_size: 2 "
         "dilation: 2 } }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'columns2' top: 'pool1' pooling_param { pool: AVE kernel_size: "
         "3 "
         "} }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1' top: 'ip1'"
         "  inner_product_param { num_output: 32 weight_filler { type: 'positive_unitball' } } }\n"
         "layer { name: 'tanh1' type: 'TanH' bottom: 'ip1' top: 'ip1' }\n"
         "layer { name: 'image' type: 'Reshape' bottom: 'ip1' top: 'image' reshape_param { shape { dim: 0 dim: 2 dim: "
         "4 "
         "dim: 4 } } }\n"
         "layer { name: 'columns3' type: 'Im2col' bottom: 'image' top: 'columns3' convolution_param { kernel_h: 2 "
         "kernel_w: 3 } }\n"
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'columns3' top: 'ip2' inner_product_param { num_output: 5 "
         "weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

/// In the first stage, on the last convolution.
TEST_F(ContractTest, APyramidOfPoolings) {
  const std::string net =
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 6 "
      "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'pool1' type: 'SPP' bottom: 'conv1' top: 'pool1' spp_param { pyramid_height: 3 pool: AVE } }\n"
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1' top: 'ip1' inner_product_param { num_output: 32 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'tanh1' type: 'TanH' bottom: 'ip1' top: 'ip1' }\n"
      "layer { name: 'image' type: 'Reshape' bottom: 'ip1' top: 'image' reshape_param { shape { dim: 0 dim: 2 dim: 4 "
      "dim: "
      "4 } } }\n"
      "layer { name: 'pool2' type: 'SPP' bottom: 'image' top: 'pool2' spp_param { pyramid_height: 2 } }\n"
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'pool2' top: 'ip2' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
  ClusterSpec table = Table(2, {2}, 3, 1, false);
  table.ends = {"pool1"};
  Check(SolverOf(net, ""), {table, Split({{"ip2", SplitConfig::INPUTS}}, table)});
}

TEST_F(ContractTest, Columns) {
  ClusterSpec table = Table(2, {2}, 3, 1, false), more = Table(3, {3}, 1, 0, true);
  table.ends = more.ends = {"pool1"};
  Check(SolverOf(Im2colLayers(), ""), {table, Split({{"ip2", SplitConfig::INPUTS}}, table), more});
}

}  // namespace
}  // namespace hp::test
