// The contract for losses other than SoftmaxWithLoss: of labels, and of two tensors, one of which may come from another
// stage.
#include "test/cluster/contract_fixture.h"

#include <cstdlib>

namespace hp::test {
namespace {

std::string Layer(const std::string& name, const std::string& type, const std::string& bottoms,
                  const std::string& fields = "", const std::string& top = "") {
  return "layer { name: '" + name + "' type: '" + type + "' " + bottoms + " top: '" + (top.empty() ? name : top) +
         "' " + fields + " }\n";
}

std::string Product(const std::string& name, const std::string& bottom, int outputs, const std::string& fields = "") {
  return Layer(
      name, "InnerProduct", "bottom: '" + bottom + "'",
      "inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } } " + fields);
}

/// conv1, pool1 and `flatdata`, the images as rows of 300, in the first stage; ip1 and what follows in the others.
std::string Front() {
  return Layer("conv1", "Convolution", "bottom: 'data'",
               "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }") +
         Layer("relu1", "ReLU", "bottom: 'conv1'", "", "conv1") + Layer("flatdata", "Flatten", "bottom: 'data'") +
         Layer("pool1", "Pooling", "bottom: 'conv1'", "pooling_param { kernel_size: 2 stride: 2 }") +
         Product("ip1", "pool1", 40) + Layer("relu2", "ReLU", "bottom: 'ip1'", "", "ip1");
}

ClusterSpec Nodes(int conv, std::vector<int> fc, int micro, int pool = 0) {
  ClusterSpec table = Table(conv, std::move(fc), micro, pool, false);
  table.ends = {"pool1", "relu2"};
  return table;
}

std::vector<ClusterSpec> Tables() {
  return {Nodes(2, {}, 2), Nodes(2, {2}, 3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Nodes(2, {3}, 2)),
          Nodes(2, {1, 2}, 2)};
}

struct LossCase {
  const char* name;
  std::string layers;  ///< behind ip1
};

void PrintTo(const LossCase& c, std::ostream* out) { *out << c.layers; }

class LossContractTest : public ContractTest, public testing::WithParamInterface<LossCase> {};

TEST_P(LossContractTest, EqualsOneProcess) { Check(SolverOf(Front() + GetParam().layers, ""), Tables()); }

/// A matrix of an InfogainLoss: wrong classes that are near count for something.
std::string Gains() {
  std::string text = "matrix {";
  for (int label = 0; label < 5; ++label) {
    for (int c = 0; c < 5; ++c) {
      text += " data: " + std::to_string(label == c ? 1.0 : 0.2 / (1 + label + std::abs(label - c)));
    }
  }
  return text + " }";
}

/// Scaled so that a step is no larger than with a SoftmaxWithLoss.
const LossCase kLosses[] = {
    {"Hinge", Product("ip2", "ip1", 5) + Layer("loss", "HingeLoss", "bottom: 'ip2' bottom: 'label'")},
    {"SquaredHinge", Product("ip2", "ip1", 5) + Layer("loss", "HingeLoss", "bottom: 'ip2' bottom: 'label'",
                                                      "hinge_loss_param { norm: L2 } loss_weight: 0.3")},
    {"Logistic", Product("ip2", "ip1", 5) + Layer("prob", "Softmax", "bottom: 'ip2'") +
                     Layer("loss", "MultinomialLogisticLoss", "bottom: 'prob' bottom: 'label'")},
    {"LogisticInPlace", Product("ip2", "ip1", 5) + Layer("prob", "Softmax", "bottom: 'ip2'", "", "ip2") +
                            Layer("loss", "MultinomialLogisticLoss", "bottom: 'ip2' bottom: 'label'")},
    {"Infogain", Product("ip2", "ip1", 5) + Layer("loss", "InfogainLoss", "bottom: 'ip2' bottom: 'label'",
                                                  "infogain_loss_param { " + Gains() + " }")},
    {"WithoutATop", Product("ip2", "ip1", 5) + "layer { type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' "
                                               "loss_weight: 0.5 }\n"
                                               "layer { name: 'hinge' type: 'HingeLoss' bottom: 'ip2' bottom: 'label' "
                                               "loss_weight: 0.2 }\n"},
    // Each number of a row is of a class of its own: of maps of the first stage, and of outputs shaped as such.
    {"MapsOfClasses",
     Product("ip2", "ip1", 8) + Layer("loss", "HingeLoss", "bottom: 'pool1' bottom: 'label'", "loss_weight: 0.05") +
         Layer("map", "Reshape", "bottom: 'ip2'", "reshape_param { shape { dim: 0 dim: 2 dim: 2 dim: 2 } }") +
         Layer("prob", "Sigmoid", "bottom: 'map'") +
         Layer("far", "MultinomialLogisticLoss", "bottom: 'prob' bottom: 'label'", "loss_weight: 0.5")},
    // How many labels count is known of a whole batch alone.
    {"InfogainIgnored", Product("ip2", "ip1", 5) + Layer("loss", "InfogainLoss", "bottom: 'ip2' bottom: 'label'",
                                                         "infogain_loss_param { " + Gains() +
                                                             " } loss_param { ignore_label: 2 } loss_weight: 0.5")},
    // The image that a net is to give back comes from the stage that reads it.
    {"Autoencoder", Product("ip2", "ip1", 300) +
                        Layer("loss", "EuclideanLoss", "bottom: 'ip2' bottom: 'flatdata'", "loss_weight: 0.05")},
    {"BinaryAutoencoder",
     Product("ip2", "ip1", 300) + Layer("light", "Threshold", "bottom: 'flatdata'") +
         Layer("loss", "SigmoidCrossEntropyLoss", "bottom: 'ip2' bottom: 'light'", "loss_weight: 0.01") +
         Layer("error", "EuclideanLoss", "bottom: 'ip2' bottom: 'light'", "loss_weight: 0.02")},
    // What is compared need not have one shape: images beside rows, maps in the convolution's own layout beside rows.
    {"ImagesBesideRows",
     Product("ip2", "ip1", 300) + Layer("loss", "EuclideanLoss", "bottom: 'data' bottom: 'ip2'", "loss_weight: 0.05")},
    {"MapsBesideRows",
     Product("ip2", "ip1", 384) + Layer("near", "EuclideanLoss", "bottom: 'ip2' bottom: 'conv1'", "loss_weight: 0.01") +
         Layer("light", "Threshold", "bottom: 'conv1'") +
         Layer("loss", "SigmoidCrossEntropyLoss", "bottom: 'ip2' bottom: 'light'", "loss_weight: 0.01")},
    // Labels that other layers read as an ordinary blob, and labels that are computed from them.
    {"LabelsAsABlob", Product("ip2", "ip1", 1) +
                          Layer("target", "Power", "bottom: 'label'", "power_param { scale: 0.5 shift: -1 }") +
                          Layer("near", "EuclideanLoss", "bottom: 'target' bottom: 'ip2'", "loss_weight: 0.2") +
                          Product("ip3", "ip1", 5) + Layer("loss", "SoftmaxWithLoss", "bottom: 'ip3' bottom: 'label'")},
    {"ComputedLabels",
     Product("ip2", "ip1", 2) + Layer("high", "Threshold", "bottom: 'label'", "threshold_param { threshold: 1.5 }") +
         Layer("above", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'high'") + Product("ip3", "ip1", 5) +
         Layer("hinge", "HingeLoss", "bottom: 'ip3' bottom: 'high'", "loss_weight: 0.2") +
         Layer("right", "Accuracy", "bottom: 'ip2' bottom: 'high'") +
         Layer("loss", "SoftmaxWithLoss", "bottom: 'ip3' bottom: 'label'")},
    // In place: from there on `label` is the blob.
    {"LabelsInPlace",
     Product("ip2", "ip1", 9) + Layer("twice", "Power", "bottom: 'label'", "power_param { scale: 2 }", "label") +
         Layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'label'", "loss_param { normalization: BATCH_SIZE }")},
    // Blobs of ordinary layers as a part of the objective: in the first stage, on shards in slices, split by inputs;
    // read by others or not, one that a layer in place overwrites.
    {"WeightedBlobs", Product("ip2", "ip1", 5, "loss_weight: 0.001") +
                          Layer("size", "Power", "bottom: 'pool1'", "power_param { power: 2 } loss_weight: 0.00002") +
                          Layer("large", "AbsVal", "bottom: 'ip1'", "loss_weight: 0.0002") +
                          Layer("act", "TanH", "bottom: 'ip2'", "", "ip2") +
                          Layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'label'")},
    {"SumsOverABatch",
     Product("ip2", "ip1", 5) +
         Layer("size", "Reduction", "bottom: 'pool1'",
               "reduction_param { operation: SUMSQ coeff: 0.00004 } loss_weight: 0.5") +
         Layer("mean", "Reduction", "bottom: 'ip1'", "reduction_param { operation: MEAN } loss_weight: 0.1") +
         Layer("large", "Reduction", "bottom: 'ip2'", "reduction_param { operation: ASUM } loss_weight: 0.001") +
         Layer("sum", "Reduction", "bottom: 'ip2'", "reduction_param { }") +
         Layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'label'")},
    // Labels as numbers to come near to.
    {"Regression",
     Product("ip2", "ip1", 1) + Layer("loss", "EuclideanLoss", "bottom: 'ip2' bottom: 'label'", "loss_weight: 0.2")},
    {"LogisticRegression", Product("ip2", "ip1", 1) + Layer("loss", "SigmoidCrossEntropyLoss",
                                                            "bottom: 'ip2' bottom: 'label'", "loss_weight: 0.1")},
    // Whether a row's two sides are to be alike is its label's to say: 0 or not.
    {"Contrastive", Product("ip2", "ip1", 20) + Product("other", "pool1", 20) +
                        Layer("loss", "ContrastiveLoss", "bottom: 'ip2' bottom: 'other' bottom: 'label'",
                              "contrastive_loss_param { margin: 3 } loss_weight: 0.2")},
    {"ContrastiveLegacy", Product("ip2", "ip1", 20) + Product("other", "pool1", 20) +
                              Layer("loss", "ContrastiveLoss", "bottom: 'ip2' bottom: 'other' bottom: 'label'",
                                    "contrastive_loss_param { margin: 9 legacy_version: true } loss_weight: 0.2")},
    {"ContrastiveTensor",
     Product("ip2", "ip1", 20) + Product("other", "pool1", 20) +
         Layer("light", "Threshold", "bottom: 'flatdata'", "threshold_param { threshold: 0.1 }") +
         Layer("first", "Slice", "bottom: 'light'", "top: 'rest' slice_param { axis: 1 slice_point: 1 }") +
         Layer("loss", "ContrastiveLoss", "bottom: 'ip2' bottom: 'other' bottom: 'first'",
               "contrastive_loss_param { margin: 3 } loss_weight: 0.2")},
    // Both sides learn.
    {"TwoTowers", Product("ip2", "ip1", 20) + Product("other", "pool1", 20) +
                      Layer("distance", "EuclideanLoss", "bottom: 'ip2' bottom: 'other'", "loss_weight: 0.2") +
                      Product("ip3", "ip2", 5) + Layer("loss", "SoftmaxWithLoss", "bottom: 'ip3' bottom: 'label'")},
};

INSTANTIATE_TEST_SUITE_P(Losses, LossContractTest, testing::ValuesIn(kLosses),
                         [](const auto& info) { return info.param.name; });

/// Labels that went through a blob are the same labels: to the bit in one process, and where they cross to a shard.
TEST_F(ContractTest, LabelsThroughABlobAreTheLabels) {
  const auto solver = [](const std::string& through) {
    return SolverOf(Front() + Product("ip2", "ip1", 5) + through +
                        Layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'label'"),
                    "");
  };
  const std::string plain = solver(""),
                    through = solver(Layer("same", "Power", "bottom: 'label'", "power_param { scale: 1 }", "label"));
  for (const ClusterSpec& table : {ClusterSpec(), Nodes(2, {1}, 2)}) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult expected = TrainCluster(table, plain), result = TrainCluster(table, through);
    ASSERT_TRUE(expected.status.ok() && result.status.ok()) << expected.status << result.status;
    EXPECT_EQ(result.params, expected.params);
    EXPECT_EQ(result.losses, expected.losses);
  }
}

/// Half the sum of squares over the samples is the distance from nothing; a weight of a blob is one of its sum.
TEST_F(ContractTest, OneLossWrittenInThreeWays) {
  const auto train = [](const std::string& layers) {
    const ClusterResult result = TrainCluster({}, SolverOf(Front() + Product("ip2", "ip1", 7) + layers, ""));
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result;
  };
  const std::string weight = "loss_weight: 0.045454545";  // 0.5 / 11
  const ClusterResult distance =
      train(Layer("none", "Power", "bottom: 'ip2'", "power_param { scale: 0 } propagate_down: false") +
            Layer("loss", "EuclideanLoss", "bottom: 'ip2' bottom: 'none'"));
  const ClusterResult blob = train(Layer("loss", "Power", "bottom: 'ip2'", "power_param { power: 2 } " + weight));
  const ClusterResult sum =
      train(Layer("loss", "Reduction", "bottom: 'ip2'", "reduction_param { operation: SUMSQ } " + weight));
  ASSERT_EQ(distance.params.size(), 6u);
  for (const ClusterResult* other : {&blob, &sum}) {
    for (const auto& [name, values] : distance.params) {
      const std::vector<float>& found = other->params.at(name);
      ASSERT_EQ(found.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found[i], values[i], 1e-6) << name;
    }
  }
}

TEST_F(ContractTest, ComputedLabelsThatLearnOrMustBeCountedAreRefused) {
  const auto error = [](const std::string& layers) {
    return TrainCluster({}, SolverOf(Front() + Product("ip2", "ip1", 5) + layers, "")).status.message();
  };
  EXPECT_THAT(error(Product("ip3", "ip1", 1) + Layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'ip3'")),
              testing::HasSubstr("layer \"loss\": its targets, bottom \"ip3\", depend on parameters that learn"));
  EXPECT_THAT(error(Layer("high", "Threshold", "bottom: 'label'") +
                    Layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'high'", "loss_param { ignore_label: 0 }")),
              testing::HasSubstr(
                  "layer \"loss\": its labels, bottom \"high\", are computed, so that nobody knows ahead how many of a "
                  "batch are not ignored; expected"));
}

TEST_F(ContractTest, TargetsThatLearnAreRefused) {
  const std::string net = Front() + Product("ip2", "ip1", 20) + Product("other", "pool1", 20) +
                          Layer("loss", "SigmoidCrossEntropyLoss", "bottom: 'ip2' bottom: 'other'");
  // One node: of several, one may be told of another's end before it has looked itself.
  const ClusterResult result = TrainCluster(Nodes(1, {}, 1), SolverOf(net, ""));
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  const std::string want =
      "layer \"loss\": its targets, bottom \"other\", depend on parameters that learn, but get no gradient; expected "
      "lr_mult: 0 in the layers below them, or a loss that has one, such as EuclideanLoss";
  EXPECT_NE(result.status.message().find(want), std::string::npos) << result.status;
}

}  // namespace
}  // namespace hp::test
