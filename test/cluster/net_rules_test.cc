// The contract for what a prototxt says of the net rather than of a layer: where gradients stop, and layers of one
// name.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

/// @param by_inputs layers that one of the tables splits so.
std::vector<ClusterSpec> HybridTables(const std::vector<std::string>& by_inputs) {
  ClusterSpec table = Table(2, {2}, 3, 1, false);
  table.ends = {"pool1"};
  ClusterSpec other = table;
  other.micro_batches = 2;
  std::map<std::string, SplitConfig::By> splits;
  for (const std::string& layer : by_inputs) splits[layer] = SplitConfig::INPUTS;
  return {table, Split(splits, other), Table(3, {}, 2, 0, false)};
}

/// Two losses more, over ip1 in the FC stage and over a pooled blob of the conv stage. @param stops none of their
/// gradients goes below their own products. @param side whether they are there.
std::string NetWithSideLosses(bool side, bool stops) {
  const std::string stop = stops ? " propagate_down: false" : "";
  std::string net = NetWithActivations("type: 'ReLU'", true);
  const std::string labels = " bottom: 'label' propagate_down: true propagate_down: false";
  net.replace(net.find(" bottom: 'label'"), std::string(" bottom: 'label'").size(), labels);
  if (!side) return net;
  return net + "layer { name: 'ip3' type: 'InnerProduct' bottom: 'ip1' top: 'ip3'" + stop +
         "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss3' type: 'SoftmaxWithLoss' bottom: 'ip3' top: 'loss3' loss_weight: 0.7" +
         labels +
         " }\n"
         "layer { name: 'ip4' type: 'InnerProduct' bottom: 'pool1' top: 'ip4'" +
         stop +
         "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss4' type: 'SoftmaxWithLoss' bottom: 'ip4' top: 'loss4' loss_weight: 0.3" +
         labels + " }\n";
}

TEST_F(ContractTest, GradientsStopWherePropagateDownIsFalse) {
  const std::string stopping = SolverOf(NetWithSideLosses(true, true), "");
  Check(stopping, HybridTables({"ip2", "ip3"}));
  const ClusterResult stopped = TrainCluster({}, stopping);
  const ClusterResult without = TrainCluster({}, SolverOf(NetWithSideLosses(false, false), ""));
  const ClusterResult with = TrainCluster({}, SolverOf(NetWithSideLosses(true, false), ""));
  ASSERT_TRUE(stopped.status.ok() && without.status.ok() && with.status.ok()) << stopped.status << without.status;
  for (const auto& [name, values] : without.params) {
    EXPECT_EQ(stopped.params.at(name), values) << name;
    EXPECT_NE(with.params.at(name), values) << name;
  }
  const ClusterResult once = TrainCluster({}, SolverOf(NetWithSideLosses(true, true), "", 0.02, 0.002, 1));
  for (const char* name : {"ip3.0", "ip3.1", "ip4.0", "ip4.1"}) {
    EXPECT_NE(stopped.params.at(name), once.params.at(name)) << name << " does not learn";
  }
}

/// Below a stop that nothing goes around no layer learns, and no gradient crosses to the conv nodes.
TEST_F(ContractTest, NothingLearnsBelowAStop) {
  std::string net = NetWithActivations("type: 'ReLU'", true);
  net.insert(net.find("inner_product_param", net.find("'ip2'")), "propagate_down: false ");
  const ClusterResult result = TrainCluster(HybridTables({})[0], SolverOf(net, "", 0.02, 0));
  const ClusterResult once = TrainCluster({}, SolverOf(net, "", 0.02, 0, 1));
  ASSERT_TRUE(result.status.ok() && once.status.ok()) << result.status << once.status;
  for (const char* name : {"conv1.0", "conv1.1", "ip1.0", "ip1.1"}) {
    EXPECT_EQ(result.params.at(name), once.params.at(name)) << name;
  }
  EXPECT_NE(result.params.at("ip2.0"), once.params.at("ip2.0"));
}

/// Layers that learn, and one that draws random numbers, by the same names as others: they are not one.
TEST_F(ContractTest, LayersOfOneName) {
  const auto net = [](bool same) {
    std::string text = NetWithActivations("type: 'Dropout'", false);
    const auto rename = [&](const std::string& name, const std::string& to) {
      const std::string field = "name: '" + name + "'";
      text.replace(text.find(field), field.size(), "name: '" + to + "'");
    };
    rename("act2", same ? "act1" : "act1#2");
    rename("ip2", same ? "ip1" : "ip1#2");
    return text;
  };
  const std::string solver = SolverOf(net(true), "");
  Check(solver, HybridTables({"ip1"}));
  const ClusterResult same = TrainCluster({}, solver);
  const ClusterResult apart = TrainCluster({}, SolverOf(net(false), ""));
  ASSERT_TRUE(same.status.ok() && apart.status.ok()) << same.status << apart.status;
  EXPECT_EQ(same.params, apart.params);
}

/// A layer's own phase: what it computes in training, whichever nets it is in.
TEST_F(ContractTest, LayersThatTestInTraining) {
  const auto same = [](const std::string& net, const std::string& as, const std::string& otherwise) {
    SCOPED_TRACE(net);
    const auto train = [](const std::string& layers) {
      return Train({}, SolverOfNet(layers, "", 0.02, 0.002, 5)).params;
    };
    EXPECT_EQ(train(net), train(as));
    EXPECT_NE(train(net), train(otherwise));
  };
  TempFolder folder;
  WriteRandomImages(folder / "db", 40, 3, 12, 5, 1);
  const auto data = [&](const std::string& top, const std::string& crop, const std::string& fields = "") {
    return "layer { name: 'data' type: 'Data' top: '" + top + "' top: 'label' data_param { source: '" + folder / "db" +
           "' batch_size: 11 shuffle: true } transform_param { scale: 0.0078125 mean_value: 120 mirror: true " + crop +
           " } " + fields + " }\n";
  };
  const auto cut = [&](const std::string& fields) { return data("data", "crop_size: 10", fields); };
  const std::string plain = cut("");
  const auto activations = [](const std::string& fields) { return NetWithActivations(fields, false); };
  const std::string dropout = activations("type: 'Dropout' phase: TEST"),
                    norm = "type: 'BatchNorm' batch_norm_param { eps: 1 ";
  same(plain + dropout, plain + activations("type: 'Dropout' dropout_param { dropout_ratio: 0 }"),
       plain + activations("type: 'Dropout' phase: TRAIN"));
  same(plain + activations(norm + "} phase: TEST"), plain + activations(norm + "use_global_stats: true }"),
       plain + activations(norm + "} phase: TRAIN"));
  // A crop in the centre is a Crop.
  const std::string centre =
      data("whole", "") +
      "layer { name: 'size' type: 'DummyData' top: 'size' dummy_data_param { shape { dim: 11 dim: 1 dim: 10 dim: 10 } "
      "} }\n"
      "layer { name: 'crop' type: 'Crop' bottom: 'whole' bottom: 'size' top: 'data' crop_param { offset: 1 } }\n";
  const std::string net = activations("type: 'ReLU'");
  same(cut("phase: TEST") + net, centre + net, cut("phase: TRAIN") + net);
  Check(SolverOfNet(cut("phase: TEST") + dropout), HybridTables({"ip2"}));
}

}  // namespace
}  // namespace hp::test
