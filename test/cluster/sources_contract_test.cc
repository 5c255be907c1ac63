// The contract for nets with more sources, or more tops of one, than images and their labels: images of two kinds,
// labels of several tasks, numbers to come near to. Where they are read is the first stage; where they are used, any.
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

using testing::HasSubstr;

std::string Layer(const std::string& name, const std::string& type, const std::string& bottoms,
                  const std::string& fields = "") {
  return "layer { name: '" + name + "' type: '" + type + "' " + bottoms + " top: '" + name + "' " + fields + " }\n";
}

std::string Product(const std::string& name, const std::string& bottom, int outputs) {
  return Layer(name, "InnerProduct", "bottom: '" + bottom + "'",
               "inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } }");
}

/// Up to pool1 in the first stage; ip1 and what follows in the others.
std::string Front(const std::string& pooled = "conv1") {
  return Layer("conv1", "Convolution", "bottom: 'data'",
               "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }") +
         Layer("pool1", "Pooling", "bottom: '" + pooled + "'", "pooling_param { kernel_size: 2 stride: 2 }") +
         Product("ip1", "pool1", 40) + "layer { name: 'relu2' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n";
}

std::string Loss(const std::string& name, const std::string& scores, const std::string& label,
                 const std::string& fields = "") {
  return Layer(name, "SoftmaxWithLoss", "bottom: '" + scores + "' bottom: '" + label + "'", fields);
}

ClusterSpec Nodes(int conv, std::vector<int> fc, int micro, int pool = 0) {
  ClusterSpec table = Table(conv, std::move(fc), micro, pool, false);
  table.ends = {"pool1", "relu2"};
  return table;
}

std::vector<ClusterSpec> Tables() {
  return {Nodes(2, {}, 2), Nodes(3, {2}, 2, 1), Split({{"ip2", SplitConfig::INPUTS}}, Nodes(2, {3}, 2)),
          Nodes(2, {1, 2}, 2)};
}

/// Two tasks, each with labels of its own source, and numbers to learn beside them.
TEST_F(ContractTest, LabelsOfTwoSources) {
  const std::string side = SideSource("top: 'kind' top: 'near'", {"", "dim: 3"},
                                      {"type: 'uniform' min: 0 max: 3.99", "type: 'gaussian' std: 0.5"});
  const std::string net = side + Front() + Product("ip2", "ip1", 5) + Loss("loss", "ip2", "label") +
                          Product("ip3", "ip1", 4) + Loss("kinds", "ip3", "kind", "loss_weight: 0.5") +
                          Layer("right", "Accuracy", "bottom: 'ip3' bottom: 'kind'") + Product("ip4", "ip1", 3) +
                          Layer("far", "EuclideanLoss", "bottom: 'ip4' bottom: 'near'", "loss_weight: 0.2");
  Check(SolverOf(net, ""), Tables());
}

std::string Ignoring(int label) { return "loss_param { ignore_label: " + std::to_string(label) + " }"; }

/// Labels of several tasks of which some do not count, others in each: of two sources, two ways of one of them, and cut
/// from rows of a third.
TEST_F(ContractTest, EachTaskCountsItsOwnLabels) {
  const std::string side = SideSource("top: 'kind' top: 'many'", {"", "dim: 3"},
                                      {"type: 'uniform' min: 0 max: 3.99", "type: 'uniform' min: -0.99 max: 1.99"});
  const std::string cut =
      "layer { name: 'cut' type: 'Slice' bottom: 'many' top: 'm0' top: 'm1' slice_param { "
      "slice_point: 1 } }\n"
      "layer { name: 'cut1' type: 'Slice' bottom: 'm1' top: 'm10' top: 'm11' }\n";
  const std::string net =
      side + cut + Front() + Product("ip2", "ip1", 5) + Loss("loss", "ip2", "label", Ignoring(3)) +
      Loss("again", "ip2", "label", "loss_weight: 0.3 " + Ignoring(0)) + Product("ip3", "ip1", 4) +
      Loss("kinds", "ip3", "kind", "loss_weight: 0.5 " + Ignoring(1)) +
      Layer("right", "Accuracy", "bottom: 'ip3' bottom: 'kind'", "accuracy_param { ignore_label: 2 }") +
      Product("ip4", "ip1", 2) + Loss("first", "ip4", "m0", "loss_weight: 0.2 " + Ignoring(0)) +
      Product("ip5", "ip1", 2) + Loss("second", "ip5", "m10", "loss_weight: 0.2 " + Ignoring(1)) +
      Layer("shaped", "Reshape", "bottom: 'm11'", "reshape_param { shape { dim: 0 } }") + Product("ip6", "ip1", 2) +
      Loss("third", "ip6", "shaped", "loss_weight: 0.2 " + Ignoring(0));
  Check(SolverOf(net, ""), Tables());
  // Cut behind a boundary that is scattered.
  const size_t slices = net.find(cut);
  std::string late = net;
  late.erase(slices, cut.size());
  late.insert(late.find("layer { name: 'ip2'"), cut);
  ClusterSpec scattered = Nodes(2, {2}, 2);
  scattered.scattered = true;
  Check(SolverOf(late, ""), {scattered});
}

/// Targets that lack some: of a source of their own, cut from it, and labels.
TEST_F(ContractTest, TargetsThatAreCounted) {
  const std::string side = SideSource("top: 'want'", {"dim: 4"}, {"type: 'uniform' max: 1.99"});
  const auto loss = [](const std::string& name, const std::string& scores, const std::string& targets, int ignored) {
    return Layer(name, "SigmoidCrossEntropyLoss", "bottom: '" + scores + "' bottom: '" + targets + "'",
                 "loss_param { normalization: VALID ignore_label: " + std::to_string(ignored) + " } loss_weight: 0.03");
  };
  const std::string net = side + Front() + Product("ip2", "ip1", 4) + loss("whole", "ip2", "want", 1) +
                          "layer { name: 'cut' type: 'Slice' bottom: 'want' top: 'one' top: 'rest' slice_param { "
                          "slice_point: 1 } }\n" +
                          Product("ip3", "ip1", 1) + loss("part", "ip3", "one", 1) + Product("ip4", "ip1", 1) +
                          loss("low", "ip4", "label", 3) + Product("ip5", "ip1", 5) + Loss("loss", "ip5", "label");
  Check(SolverOf(net, ""), Tables());
}

/// As above, and a loss over classes in slices, or in blocks.
TEST_F(ContractTest, CountedLabelsOfManyClasses) {
  const std::string side = SideSource("top: 'kind'", {""}, {"type: 'uniform' min: 0 max: 599.99"});
  const std::string net = side + Front() + Product("ip2", "ip1", 5) + Loss("loss", "ip2", "label", Ignoring(1)) +
                          Product("ip3", "ip1", 600) +
                          Loss("kinds", "ip3", "kind", "loss_weight: 0.5 " + Ignoring(599)) +
                          Layer("right", "Accuracy", "bottom: 'ip3' bottom: 'kind'", "accuracy_param { top_k: 50 }");
  Check(SolverOf(net, ""), {Nodes(2, {}, 2), Nodes(2, {3}, 2), Nodes(1, {2, 2}, 3)});
}

/// A vector of targets for each row, in the usual place of labels: to a loss on shards, part by part, counted, and
/// beside a layer that computes with it.
TEST_F(ContractTest, VectorsOfTargetsInThePlaceOfLabels) {
  const auto train = [](const std::string& targets, const std::string& losses) {
    SCOPED_TRACE(losses);
    const std::string data =
        "layer { name: 'data' type: 'DummyData' top: 'data' top: 'y' dummy_data_param { shape { dim: 11 dim: 3 dim: 10 "
        "dim: 10 } shape { dim: 11 dim: 2 } data_filler { type: 'gaussian' std: 0.5 } data_filler { type: 'uniform' " +
        targets + " } } }\n";
    Check(SolverOfNet(data + Front() + Product("ip2", "ip1", 2) + losses),
          {Nodes(1, {1}, 1), Nodes(2, {2}, 2), Nodes(3, {2}, 2, 1),
           Split({{"ip2", SplitConfig::INPUTS}}, Nodes(2, {3}, 2)), Nodes(2, {1, 2}, 2)});
  };
  const auto sigmoid = [](const std::string& fields) {
    return Layer("loss", "SigmoidCrossEntropyLoss", "bottom: 'ip2' bottom: 'y'", fields + " loss_weight: 0.2");
  };
  train("max: 1", Layer("loss", "EuclideanLoss", "bottom: 'ip2' bottom: 'y'", "loss_weight: 0.5"));
  train("max: 1", sigmoid(""));
  train("max: 2.99", sigmoid("loss_param { ignore_label: 2 normalization: VALID }"));
  train("max: 1", Layer("loss", "EuclideanLoss", "bottom: 'ip2' bottom: 'y'", "loss_weight: 0.5") +
                      Layer("near", "Power", "bottom: 'y'", "power_param { scale: 0.5 }") +
                      Layer("half", "EuclideanLoss", "bottom: 'ip2' bottom: 'near'", "loss_weight: 0.1"));
}

/// The labels of which some do not count go ahead, though they stand second.
TEST_F(ContractTest, LabelsThatAreCountedGoAhead) {
  const std::string side = SideSource("top: 'kind'", {""}, {"type: 'uniform' min: 0 max: 3.99"});
  const std::string net = side + Front() + Product("ip2", "ip1", 5) + Loss("loss", "ip2", "label") +
                          Product("ip3", "ip1", 4) +
                          Loss("kinds", "ip3", "kind", "loss_weight: 0.5 loss_param { ignore_label: 1 }");
  Check(SolverOf(net, ""), Tables());
}

/// Images of two sources meet in the first stage; rows of numbers go to a product of another one.
TEST_F(ContractTest, ImagesAndRowsOfTwoSources) {
  const std::string side = SideSource("top: 'more' top: 'row'", {"dim: 2 dim: 8 dim: 8", "dim: 9"},
                                      {"type: 'gaussian' std: 0.5", "type: 'uniform' min: -1 max: 1"});
  const std::string front = Front("both");
  const size_t behind_conv = front.find('\n') + 1;
  const std::string layers = side + front.substr(0, behind_conv) +
                             Layer("both", "Concat", "bottom: 'conv1' bottom: 'more'") + front.substr(behind_conv) +
                             Layer("wide", "Concat", "bottom: 'ip1' bottom: 'row'") + Product("ip2", "wide", 5) +
                             Loss("loss", "ip2", "label");
  Check(SolverOf(layers, ""), {Nodes(2, {}, 2), Nodes(3, {1}, 2, 1)});
}

/// Rows of numbers have the axes that they are written with, wherever they stand: the last axis of the first top, and
/// one number a row, meet what products make. A source may stand behind the first stage's layers.
TEST_F(ContractTest, RowsOfNumbers) {
  const std::string late = SideSource("top: 'row' top: 'weight'", {"dim: 9", "dim: 1"},
                                      {"type: 'gaussian' std: 0.5", "type: 'uniform' min: 0.5 max: 1"});
  const std::string net =
      Front() + late + Layer("share", "Softmax", "bottom: 'row'", "softmax_param { axis: -1 }") +
      Layer("wide", "Concat", "bottom: 'ip1' bottom: 'share' bottom: 'weight'") + Product("ip2", "wide", 5) +
      Loss("loss", "ip2", "label") + Product("ip3", "wide", 1) +
      Layer("weighted", "Eltwise", "bottom: 'ip3' bottom: 'weight'", "eltwise_param { operation: PROD }") +
      Layer("far", "EuclideanLoss", "bottom: 'weighted' bottom: 'weight'", "loss_weight: 0.2");
  Check(SolverOf(net, ""), {Nodes(2, {}, 2), Nodes(3, {1}, 2, 1)});
}

TEST_F(ContractTest, SourcesThatDoNotFitTogetherAreRefused) {
  const auto error = [](std::string side, const std::string& batch, const std::string& other) {
    side.replace(side.find(batch), batch.size(), other);
    const std::string net = side + Front() + Product("ip2", "ip1", 5) + Loss("loss", "ip2", "label");
    return TrainCluster({}, SolverOf(net, "")).status.message();
  };
  const std::string side = SideSource("top: 'row'", {"dim: 9"}, {"value: 1"});
  EXPECT_THAT(error(side, "dim: 11", "dim: 12"),
              HasSubstr("layer \"side\" has a batch of 12 samples, and layer \"data\" of 11; expected the same"));
  EXPECT_THAT(error("layer { name: 'in' type: 'Input' top: 'in' input_param { shape { dim: 11 dim: 4 } } }\n", "dim: 4",
                    "dim: 4"),
              HasSubstr("layer \"in\" of type Input stands beside layer \"data\" of type Data in phase TRAIN"));
}

/// Those that stand second, or are cut from others, are checked, too.
TEST_F(ContractTest, LabelsOfEachTaskAreChecked) {
  const auto error = [](const std::string& filler, const std::string& label) {
    const std::string net = SideSource("top: 'kind' top: 'many'", {"", "dim: 3"}, {filler, "type: 'uniform' max: 9"}) +
                            "layer { name: 'cut' type: 'Slice' bottom: 'many' top: 'm0' top: 'm1' top: 'm2' }\n" +
                            Front() + Product("ip2", "ip1", 9) + Loss("loss", "ip2", "label") +
                            Loss("kinds", "ip2", label);
    return TrainCluster({}, SolverOf(net, "")).status.message();
  };
  EXPECT_EQ(error("type: 'uniform' max: 8.99", "m1"), "");
  EXPECT_THAT(error("value: 9", "kind"), HasSubstr("layer \"kinds\", batch 0, rows from 0: label 9 of row 0 is not in "
                                                   "0..8"));
  EXPECT_THAT(error("value: -1", "kind"), HasSubstr("label -1 of row 0 is not in 0..8"));
}

}  // namespace
}  // namespace hp::test
