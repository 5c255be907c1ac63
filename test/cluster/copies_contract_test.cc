// The contract for layers that copy elements to other places: between conv layers, in a sharded FC stage, and over the
// boundary between them.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

std::string Product(const std::string& name, const std::string& bottom, int outputs) {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name +
         "' inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } } }\n";
}

/// Two slices of the channels, of which one is cropped to the other's pooled size, tiled and joined again; behind the
/// first product its outputs are sliced, reshaped and put together in another order.
std::string Layers() {
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
         "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'slice1' type: 'Slice' bottom: 'conv1' top: 'a' top: 'b' slice_param { slice_point: 2 } }\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'a' top: 'a' }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'b' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } }\n"
         "layer { name: 'crop1' type: 'Crop' bottom: 'a' bottom: 'pool1' top: 'crop1' crop_param { offset: 1 offset: 3 "
         "} }\n"
         "layer { name: 'tile1' type: 'Tile' bottom: 'crop1' top: 'tile1' tile_param { tiles: 2 } }\n"
         "layer { name: 'join1' type: 'Concat' bottom: 'tile1' bottom: 'pool1' top: 'join1' }\n"
         "layer { name: 'flat1' type: 'Reshape' bottom: 'join1' top: 'flat1' reshape_param { shape { dim: 0 dim: -1 } "
         "} "
         "}\n" +
         Product("ip1", "flat1", 30) +
         "layer { name: 'slice2' type: 'Slice' bottom: 'ip1' top: 'c' top: 'd' top: 'e' }\n"
         "layer { name: 'tile2' type: 'Tile' bottom: 'd' top: 'tile2' tile_param { tiles: 3 } }\n"
         "layer { name: 'join2' type: 'Concat' bottom: 'e' bottom: 'tile2' bottom: 'c' top: 'join2' }\n"
         "layer { name: 'square2' type: 'Reshape' bottom: 'join2' top: 'square2' reshape_param { shape { dim: 10 dim: "
         "-1 "
         "} axis: 1 } }\n" +
         Product("ip2", "square2", 5) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

TEST_F(ContractTest, SlicesCropsTilesAndReshapes) {
  ClusterSpec inside = Table(2, {2}, 3, 1, false);
  inside.ends = {"flat1"};
  ClusterSpec across = Table(2, {3}, 2, 0, false);
  across.ends = {"pool1"};
  across.fc_starts = {"crop1"};
  Check(SolverOf(Layers(), ""), {inside, Split({{"ip2", SplitConfig::INPUTS}}, inside), across});
}

std::string Convolution(const std::string& name, const std::string& bottom) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n";
}

std::string Relu(const std::string& blob) {
  return "layer { name: '" + blob + "/relu' type: 'ReLU' bottom: '" + blob + "' top: '" + blob + "' }\n";
}

/// The sum of two blobs. Not `plain`: with factors that the layer behind it takes back, all powers of two, so that the
/// values and their gradients are the same bits.
std::string Sum(const std::string& name, const std::string& a, const std::string& b, bool plain) {
  const std::string bottoms = " type: 'Eltwise' bottom: '" + a + "' bottom: '" + b + "' ";
  if (plain) return "layer { name: '" + name + "'" + bottoms + "top: '" + name + "' }\n";
  return "layer { name: '" + name + "/twice'" + bottoms + "top: '" + name +
         "/twice' eltwise_param { coeff: 2 coeff: 2 } }\n"
         "layer { name: '" +
         name + "' type: 'Power' bottom: '" + name + "/twice' top: '" + name + "' power_param { scale: 0.5 } }\n";
}

/// Blocks of residual nets. Rectifiers that work in place lie under both bottoms of a sum, under one, and under none;
/// one sum adds another, and one a blob to itself.
std::string Residuals(bool plain) {
  return Convolution("conv1", "data") + Convolution("a", "conv1") + Relu("a") + Convolution("b", "conv1") + Relu("b") +
         Sum("sum1", "a", "b", plain) + Convolution("c", "sum1") + Sum("sum2", "sum1", "c", plain) +
         Sum("sum3", "sum2", "conv1", plain) + Relu("sum3") + Sum("sum4", "sum3", "sum3", plain) +
         Product("ip1", "sum4", 30) + Product("ip2", "ip1", 30) + Relu("ip2") + Sum("sum5", "ip1", "ip2", plain) +
         Product("ip3", "sum5", 5) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' }\n";
}

/// Bottoms of a plain sum have its gradient's memory, which no step may overwrite while others read it.
TEST_F(ContractTest, SumsPassTheirGradientsOn) {
  ClusterSpec inside = Table(2, {2}, 3, 1, false);
  inside.ends = {"sum4"};
  ClusterSpec across = Table(2, {3}, 2, 0, false);
  across.ends = {"sum2"};
  across.fc_starts = {"sum3"};
  const std::vector<ClusterSpec> tables = {inside, Split({{"ip2", SplitConfig::INPUTS}}, inside), across};
  Check(SolverOf(Residuals(true), ""), tables);
  const ClusterResult passed = TrainCluster(inside, SolverOf(Residuals(true), ""));
  const ClusterResult computed = TrainCluster(inside, SolverOf(Residuals(false), ""));
  ASSERT_TRUE(passed.status.ok() && computed.status.ok()) << passed.status << computed.status;
  EXPECT_EQ(passed.params, computed.params);
}

}  // namespace
}  // namespace hp::test
