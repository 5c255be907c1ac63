// The contract for layers that work element by element, with small parameters or without: between conv layers and
// between the products of a sharded FC stage, where each shard has a slice of them, in place and with a top of their
// own.
#include "test/cluster/contract_fixture.h"

#include <algorithm>

namespace hp::test {
namespace {

/// Two replicas and two shards.
ClusterSpec Hybrid(int micro, int pool) {
  ClusterSpec table = Table(2, {2}, micro, pool, false);
  table.ends = {"pool1"};
  return table;
}

struct LayerCase {
  const char* name;
  const char* fields;  ///< of the layer, behind its name, bottom and top
};

void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.fields; }

class ActivationContractTest : public ContractTest, public testing::WithParamInterface<LayerCase> {};

TEST_P(ActivationContractTest, InPlaceAndNotUnderHybridTables) {
  std::map<std::string, std::vector<float>> params;
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place ? "in place" : "with a top of its own");
    const std::string solver = SolverOf(NetWithActivations(GetParam().fields, in_place), "");
    Check(solver, {Hybrid(3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Hybrid(2, 0))});
    const ClusterResult result = TrainCluster({}, solver);
    ASSERT_TRUE(result.status.ok()) << result.status;
    if (in_place) {
      EXPECT_EQ(result.params, params);
    }
    params = result.params;
  }
}

constexpr LayerCase kCases[] = {
    {"ReluOfANegativeSlope", "type: 'ReLU' relu_param { negative_slope: -0.5 }"},
    {"Elu", "type: 'ELU' elu_param { alpha: 0.7 }"},
    {"EluOfANegativeAlpha", "type: 'ELU' elu_param { alpha: -0.7 }"},
    {"AbsVal", "type: 'AbsVal'"},
    {"Power", "type: 'Power' power_param { power: 3 scale: 0.3 shift: 1 }"},
    {"Square", "type: 'Power' power_param { power: 2 scale: 0.5 shift: 0.5 }"},
    {"Linear", "type: 'Power' power_param { scale: -0.5 shift: 1 }"},
    {"Exp", "type: 'Exp' exp_param { base: 2 scale: 0.5 shift: -1 }"},
    {"Log", "type: 'Log' log_param { base: 2 scale: 0.5 shift: 8 }"},
    {"Bnll", "type: 'BNLL'"},
    {"Swish", "type: 'Swish' swish_param { beta: 1.5 }"},
    {"Clip", "type: 'Clip' clip_param { min: -0.5 max: 0.7 }"},
    {"Prelu", "type: 'PReLU' param { lr_mult: 0.5 decay_mult: 0 }"},
    {"PreluOfOneSlope", "type: 'PReLU' prelu_param { channel_shared: true filler { type: 'constant' value: -0.4 } }"},
    {"Bias", "type: 'Bias' bias_param { filler { type: 'gaussian' std: 0.1 } }"},
    {"BiasOfUnits", "type: 'Bias' bias_param { num_axes: -1 }"},
    {"Scale", "type: 'Scale' scale_param { bias_term: true bias_filler { type: 'gaussian' std: 0.1 } }"},
    {"ScaleOfUnits", "type: 'Scale' scale_param { num_axes: -1 filler { type: 'uniform' min: 0.5 max: 1.5 } }"},
    {"ScaleOfOneFactor", "type: 'Scale' scale_param { num_axes: 0 bias_term: true }"},
    {"ScaleOfTheLastAxis", "type: 'Scale' scale_param { axis: -1 bias_term: true }"},
};

INSTANTIATE_TEST_SUITE_P(Layers, ActivationContractTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// Blobs of Parameter layers are those of a Bias and a Scale that learn them themselves: in the first stage, and on
/// shards in slices.
TEST_F(ContractTest, BlobsOfParameterLayers) {
  const auto layer = [](const std::string& name, const std::string& type, const std::string& blobs,
                        const std::string& fields) {
    return "layer { name: '" + name + "' type: '" + type + "' " + blobs + " " + fields + " }\n";
  };
  const std::string rate = "param { lr_mult: 2 }", zero = "scale_param { filler { value: 0 } }";
  const auto net = [&](const std::string& bias, const std::string& scale) {
    std::string text = NetWithActivations("type: 'Bias'", false);
    for (const auto& [name, by] : std::vector<std::pair<std::string, std::string>>{
             {"act1", bias},
             {"act2", scale + layer("act2", "Eltwise", "bottom: 'ip1' bottom: 'scaled' top: 'act2'", "")}}) {
      const size_t begin = text.find("layer { name: '" + name + "'");
      text.replace(begin, text.find('\n', begin) + 1 - begin, by);
    }
    return text;
  };
  const std::string parameters =
      layer("p", "Parameter", "top: 'p/top'", rate + " parameter_param { shape { dim: 6 } }") +
      layer("q", "Parameter", "top: 'q/top'", rate + " parameter_param { shape { dim: 40 } }");
  const std::string held =
      parameters + net(layer("act1", "Bias", "bottom: 'conv1' bottom: 'p/top' top: 'act1'", ""),
                       layer("scaled", "Scale", "bottom: 'ip1' bottom: 'q/top' top: 'scaled'", ""));
  const std::string own = net(layer("p", "Bias", "bottom: 'conv1' top: 'act1'", rate),
                              layer("q", "Scale", "bottom: 'ip1' top: 'scaled'", rate + zero));
  const std::vector<ClusterSpec> tables = {Hybrid(3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Hybrid(2, 0))};
  Check(SolverOf(held, ""), tables);
  const ClusterResult result = TrainCluster(tables[0], SolverOf(held, ""));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.params, TrainCluster(tables[0], SolverOf(own, "")).params);
  EXPECT_TRUE(result.params.contains("p.0") && !result.params.contains("act1.0"));
}

/// Of several axes, which a shard may not divide, and frozen ones.
TEST_F(ContractTest, BlobsOfParameterLayersOfSeveralAxes) {
  const auto parameter = [](const std::string& name, const std::string& dims, const std::string& rate) {
    return "layer { name: '" + name + "' type: 'Parameter' top: '" + name + "' param { lr_mult: " + rate +
           " } parameter_param { shape { " + dims + " } } }\n";
  };
  std::string text = NetWithActivations("type: 'Bias'", false);
  text.replace(text.find("bottom: 'conv1' top: 'act1'"), 15, "bottom: 'conv1' bottom: 'maps'");
  text.replace(text.find("bottom: 'ip1' top: 'act2'"), 13, "bottom: 'ip1' bottom: 'units'");
  const std::string maps = "dim: 6 dim: 8 dim: 8";
  const std::vector<ClusterSpec> tables = {Hybrid(3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Hybrid(2, 0))};
  Check(SolverOf(parameter("maps", maps, "2") + parameter("units", "dim: 40", "1") + text, ""), tables);
  const std::string frozen = SolverOf(parameter("maps", maps, "2") + parameter("units", "dim: 40", "0") + text, "");
  const ClusterResult result = Train(tables[0], frozen);
  EXPECT_EQ(result.params.at("units.0"), std::vector<float>(40));
  EXPECT_NE(result.params.at("maps.0"), std::vector<float>(6 * 8 * 8));
}

/// Addends and factors that other layers compute: of the channels in the first stage, of the units on shards, and one
/// number for each row.
TEST_F(ContractTest, AddendsAndFactorsOfOtherLayers) {
  const auto layer = [](const std::string& name, const std::string& type, const std::string& bottoms,
                        const std::string& fields) {
    return "layer { name: '" + name + "' type: '" + type + "' " + bottoms + " top: '" + name + "' " + fields + " }\n";
  };
  const auto product = [&](const std::string& name, const std::string& bottom, const std::string& outputs) {
    return layer(name, "InnerProduct", "bottom: '" + bottom + "'",
                 "inner_product_param { num_output: " + outputs + " weight_filler { type: 'xavier' } }");
  };
  const std::string net =
      layer("conv1", "Convolution", "bottom: 'data'",
            "convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } }") +
      layer("mean", "Pooling", "bottom: 'conv1'", "pooling_param { pool: AVE global_pooling: true }") +
      layer("addends", "Flatten", "bottom: 'mean'", "") +
      layer("moved", "Bias", "bottom: 'conv1' bottom: 'addends'", "bias_param { axis: 0 }") +
      layer("pool1", "Pooling", "bottom: 'moved'", "pooling_param { kernel_size: 2 stride: 2 }") +
      product("ip1", "pool1", "40") + product("gate", "pool1", "40") + layer("open", "Sigmoid", "bottom: 'gate'", "") +
      layer("gated", "Scale", "bottom: 'ip1' bottom: 'open'", "scale_param { axis: -2 }") +
      product("shift", "pool1", "1") +
      layer("number", "Reshape", "bottom: 'shift'", "reshape_param { shape { dim: 0 } }") +
      layer("shifted", "Bias", "bottom: 'gated' bottom: 'number'", "bias_param { axis: 0 }") +
      product("ip2", "shifted", "5") + layer("loss", "SoftmaxWithLoss", "bottom: 'ip2' bottom: 'label'", "");
  Check(SolverOf(net, ""), {Hybrid(3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Hybrid(2, 0))});
}

/// What a Threshold yields is added to what it reads, a little of it, since a unit that roundings bring to the other
/// side changes by 1. Gradients go past it.
std::string NetWithThresholds(bool in_place) {
  const std::string top = in_place ? "copy" : "above";
  const auto branch = [&](const std::string& blob) {
    return "layer { name: '" + blob + "/split' type: 'Split' bottom: '" + blob + "' top: '" + blob + "/x' top: '" +
           blob +
           "/copy' }\n"
           "layer { name: '" +
           blob + "/threshold' type: 'Threshold' bottom: '" + blob + "/copy' top: '" + blob + "/" + top +
           "' threshold_param { threshold: 0.1 } }\n"
           "layer { name: '" +
           blob + "/sum' type: 'Eltwise' bottom: '" + blob + "/x' bottom: '" + blob + "/" + top + "' top: '" + blob +
           "/sum' eltwise_param { coeff: 1 coeff: 0.02 } }\n";
  };
  return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
         "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n" +
         branch("conv1") +
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1/sum' top: 'pool1' pooling_param { kernel_size: 2 "
         "stride: 2 } }\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1' top: 'ip1'"
         "  inner_product_param { num_output: 40 weight_filler { type: 'xavier' } } }\n" +
         branch("ip1") +
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1/sum' top: 'ip2'"
         "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
}

TEST_F(ContractTest, Thresholds) {
  for (const bool in_place : {false, true}) {
    Check(SolverOf(NetWithThresholds(in_place), ""),
          {Hybrid(3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Hybrid(2, 0))});
  }
}

/// What is below a Threshold alone stays as it is: no gradient crosses to the conv nodes.
TEST_F(ContractTest, NothingLearnsBelowAThreshold) {
  const std::string net = NetWithActivations("type: 'Threshold'", true);
  const ClusterResult result = TrainCluster(Hybrid(2, 1), SolverOf(net, "", 0.02, 0));
  ASSERT_TRUE(result.status.ok()) << result.status;
  const ClusterResult once = TrainCluster({}, SolverOf(net, "", 0.02, 0, 1));
  ASSERT_TRUE(once.status.ok()) << once.status;
  for (const char* name : {"conv1.0", "conv1.1", "ip1.0", "ip1.1"}) {
    EXPECT_EQ(result.params.at(name), once.params.at(name)) << name;
  }
  EXPECT_NE(result.params.at("ip2.0"), once.params.at("ip2.0"));
}

/// A net with Silences: beside other readers of a blob, in both stages, of labels, and alone over a layer that learns.
std::string NetWithSilences(bool silences) {
  const auto silence = [&](const std::string& name, const std::string& bottoms) {
    return silences ? "layer { name: '" + name + "' type: 'Silence' " + bottoms + " }\n" : "";
  };
  std::string net = NetWithActivations("type: 'ReLU'", true);
  const auto insert = [&](const std::string& before, const std::string& text) {
    net.insert(net.find("layer { name: '" + before + "'"), text);
  };
  insert("act1", silence("quiet1", "bottom: 'conv1' bottom: 'data' bottom: 'label'"));
  insert("ip2",
         "layer { name: 'side' type: 'InnerProduct' bottom: 'ip1' top: 'side' inner_product_param { num_output: "
         "7 weight_filler { type: 'xavier' } } }\n" +
             silence("quiet2", "bottom: 'ip1' bottom: 'side'"));
  return net + silence("quiet3", "bottom: 'label' include { phase: TEST }") + silence("quiet4", "bottom: 'ip2'");
}

TEST_F(ContractTest, SilencesChangeNothing) {
  const std::string solver = SolverOf(NetWithSilences(true), "");
  Check(solver, {Hybrid(3, 1), Split({{"ip2", SplitConfig::INPUTS}}, Hybrid(2, 0))});
  const ClusterResult with = TrainCluster(Hybrid(3, 1), solver);
  const ClusterResult without = TrainCluster(Hybrid(3, 1), SolverOf(NetWithSilences(false), ""));
  ASSERT_TRUE(with.status.ok() && without.status.ok()) << with.status << without.status;
  EXPECT_EQ(with.params, without.params);
  EXPECT_EQ(with.losses, without.losses);
}

}  // namespace
}  // namespace hp::test
