// Layers that name one parameter: who owns it, what is refused, and its gradient, which is the sum of those that the
// layers of the same net without the names have.
#include "net/plan/shared_params.h"

#include "test/unit/net/net_test_util.h"

#include <gmock/gmock.h>

#include <random>

namespace hp::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Product(const std::string& name, const std::string& bottom, const std::string& params,
                    const std::string& fields = "num_output: 10") {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name + "' " + params +
         " inner_product_param { " + fields + " weight_filler { type: 'xavier' } } }\n";
}

const std::string kBegin =
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 4 } }\n"
    "layer { name: 'half' type: 'Power' bottom: 'data' top: 'half' power_param { scale: 0.5 shift: 0.1 } }\n";
const std::string kEnd =
    "layer { name: 'both' type: 'Concat' bottom: 'a' bottom: 'b' top: 'both' }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'both' bottom: 'label' top: 'loss' }\n";

/// Two layers, 2 and 3 of the net, on the data and on half of it.
std::string Twins(const std::string& a, const std::string& b, const std::string& fields_of_b = "num_output: 10") {
  return kBegin + Product("a", "data", a) + Product("b", "half", b, fields_of_b) + kEnd;
}

Status PlanOf(const std::string& text, const StageLayout& layout = Layout(1, {}, {}, 6)) {
  const auto graph = NetGraph::Create(ParseNet(text), caffe::TRAIN);
  HP_RETURN_IF_ERROR(graph.status());
  const auto placement = Placement::Create(**graph, kSample, layout);
  HP_RETURN_IF_ERROR(placement.status());
  return NodePlan::Create(**graph, *placement, {{{layout.stage_of_layer[2], 0}}, kSample, 0}).status();
}

TEST(SharedParams, TheFirstLayerOwnsAndTheFirstThatSaysItDecides) {
  const PlacedNet net(Twins("param { name: 'w' } param { name: 'c' decay_mult: 0 }",
                            "param { name: 'w' lr_mult: 3 } param { name: 'd' lr_mult: 2 }"),
                      Layout(1, {}, {}, 6));
  const SharedParams& shared = net.graph->shared();
  ASSERT_EQ(shared.params().size(), 1u) << "'c' and 'd' stand once each";
  EXPECT_EQ(shared.Find("b", 0), &shared.params()[0]);
  EXPECT_EQ(shared.Find("b", 1), nullptr);
  const auto node = net.MakeNet(0, 0, 4);
  const std::vector<ParamPlan>& params = node->plan().params();
  ASSERT_EQ(params.size(), 3u);
  EXPECT_EQ(params[0].layer, "a");
  EXPECT_EQ(params[0].spec.lr_mult, 3) << "b says it, a does not";
  EXPECT_EQ(params[1].spec.decay_mult, 0);
  EXPECT_EQ(params[2].layer, "b");
  EXPECT_EQ(params[2].blob, 1);
  ASSERT_EQ(params[0].users.size(), 1u);
  EXPECT_EQ(params[0].users[0].layer, "b");
  EXPECT_THAT(node->plan().params_of(3), ElementsAre(0, 2));
  ASSERT_EQ(node->plan().param_groups().size(), 1u) << "what shares a parameter is updated together";
  EXPECT_THAT(node->plan().param_groups()[0], ElementsAre(2, 3));
  EXPECT_EQ(params[2].graph_layer, params[0].graph_layer);
}

TEST(SharedParams, AreFrozenByAnyOfTheLayers) {
  const PlacedNet net(Twins("param { name: 'w' }", "param { name: 'w' lr_mult: 0 } param { lr_mult: 0 }"),
                      Layout(1, {}, {}, 6));
  EXPECT_TRUE(net.graph->layers()[2].learns) << "its bias";
  EXPECT_FALSE(net.graph->layers()[3].learns);
  EXPECT_EQ(net.MakeNet(0, 0, 4)->plan().params()[0].spec.lr_mult, 0);
}

TEST(SharedParams, LayersJoinByWayOfOthers) {
  const PlacedNet net(kBegin + Product("a", "data", "param { name: 'w' }") +
                          Product("b", "half", "param { name: 'v' } param { name: 'c' }") +
                          Product("x", "half", "param { name: 'w' } param { name: 'c' }") + Product("y", "half", "") +
                          "layer { name: 'both' type: 'Eltwise' bottom: 'a' bottom: 'b' bottom: 'x' bottom: 'y' top: "
                          "'both' }\n"
                          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'both' bottom: 'label' top: 'loss' }\n",
                      Layout(1, {}, {}, 8));
  const auto node = net.MakeNet(0, 0, 4, 1);
  EXPECT_THAT(node->plan().param_groups(), ElementsAre(ElementsAre(2, 3, 4), ElementsAre(5)));
  EXPECT_FALSE(node->plan().layers()[2].deferred) << "others add to its gradient";
  EXPECT_TRUE(node->plan().layers()[5].deferred);
}

TEST(SharedParams, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(PlanOf(Twins("param { name: 'w' }", "param { name: 'w' }", "num_output: 12")).message(),
            "layer \"b\": param { name: \"w\" } is blob 0, of shape [12 192], but the parameter is blob 0 of layer "
            "\"a\", of shape [10 192]; expected the same shape, or as many elements and share_mode: PERMISSIVE");
  const std::string permissive = "param { name: 'w' share_mode: PERMISSIVE }";
  EXPECT_EQ(PlanOf(Twins("param { name: 'w' }", permissive, "num_output: 12")).message(),
            "layer \"b\": param { name: \"w\" } is blob 0, of shape [12 192], but the parameter is blob 0 of layer "
            "\"a\", of shape [10 192]; expected as many elements");
  EXPECT_EQ(PlanOf(Twins("param { name: 'w' lr_mult: 2 }", "param { name: 'w' lr_mult: 1 }")).message(),
            "layer \"b\": param { name: \"w\" lr_mult: 1 }, but layer \"a\", which shares that parameter, has lr_mult: "
            "2; expected the same, or one of them without it");
  EXPECT_THAT(PlanOf(Twins("param { name: 'w' decay_mult: 2 }", "param { name: 'w' decay_mult: 0 }")).message(),
              HasSubstr("layer \"b\": param { name: \"w\" decay_mult: 0 }, but layer \"a\""));
  EXPECT_EQ(
      PlanOf(Twins("param { name: 'w' } param { name: 'w' }", "")).message(),
      "layer \"a\": its blobs 0 and 1 have one name, \"w\"; only blobs of different layers can share a parameter");
  EXPECT_EQ(PlanOf(Twins("", "param { } param { name: 'c' }", "num_output: 10 bias_term: false")).message(),
            "layer \"b\": has 2 param entries; expected at most 1, one for each learnable blob");
  EXPECT_EQ(PlanOf(Twins("param { share_mode: STRICT }", "")).message(),
            "layer \"a\": param { share_mode } says how a parameter is shared; expected a name beside it");
  EXPECT_EQ(
      PlanOf(kBegin + Product("a", "data", "param { name: 'w' }", "num_output: 10 bias_term: false sample_rate: 0.5") +
             Product("b", "half", "param { name: 'w' }") +
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'label' top: 'loss' }\n")
          .message(),
      "layers \"a\" and \"b\" share the parameter \"w\", and \"a\" has sample_rate below 1; expected sample_rate: "
      "1, or other names");
}

std::string Norm(const std::string& name, const std::string& bottom, const std::string& params,
                 const std::string& fields) {
  return "layer { name: '" + name + "' type: 'BatchNorm' bottom: '" + bottom + "' top: '" + name + "' " + params +
         " batch_norm_param { " + fields + " } }\n";
}

/// Layers 2 and 3 of the net are BatchNorms.
std::string NormTwins(const std::string& params_of_a, const std::string& params_of_b, const std::string& fields_of_a,
                      const std::string& fields_of_b) {
  return kBegin + Norm("na", "data", params_of_a, fields_of_a) + Norm("nb", "half", params_of_b, fields_of_b) +
         Product("a", "na", "") + Product("b", "nb", "") + kEnd;
}

const std::string kAverages =
    "param { name: 'm' lr_mult: 0 } param { name: 'v' lr_mult: 0 } param { name: 's' lr_mult: 0 }";

TEST(SharedParams, AveragesAreSharedWholeAndAmongAveragesAlone) {
  const StageLayout layout = Layout(1, {}, {}, 8);
  const std::string mean = "param { name: 'm' lr_mult: 0 }";
  EXPECT_EQ(
      PlanOf(NormTwins(mean, mean, "", ""), layout).message(),
      "layers \"na\" and \"nb\" share blob 0 of their averages, and blob 1 is not shared by the same layers; expected "
      "one name for each of the three blobs in all layers that share one, or none");
  EXPECT_TRUE(PlanOf(NormTwins(mean, mean, "use_global_stats: true", "use_global_stats: true"), layout).ok())
      << "nobody adds to it";
  EXPECT_TRUE(PlanOf(NormTwins(kAverages, kAverages, "", ""), layout).ok());
  EXPECT_TRUE(PlanOf(NormTwins(kAverages, "", "", ""), layout).ok()) << "one layer shares nothing";
  EXPECT_TRUE(PlanOf(kBegin + Norm("na", "data", kAverages, "") + Norm("nb", "half", kAverages, "") +
                         Product("a", "na", "") + Product("b", "nb", "") +
                         "layer { name: 'both' type: 'Concat' bottom: 'a' bottom: 'b' top: 'both' propagate_down: true "
                         "propagate_down: false }\n"
                         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'both' bottom: 'label' top: 'loss' }\n",
                     layout)
                  .ok())
      << "no gradient reaches one of them";
  EXPECT_EQ(PlanOf(NormTwins(kAverages, kAverages, "", "use_global_stats: true"), layout).message(),
            "layers \"na\" and \"nb\" share the average \"m\", and one of them alone has use_global_stats: true; "
            "expected the same of both, or other names");
  EXPECT_EQ(PlanOf(kBegin + Norm("na", "data", mean, "") + Product("a", "na", "") +
                       Product("b", "half", "param { name: 'm' }") + kEnd,
                   Layout(1, {}, {}, 7))
                .message(),
            "layers \"na\" and \"b\" share the parameter \"m\", which is an average of statistics of one and learned "
            "by the other; expected other names");
}

TEST(SharedParams, LayersOfOneParameterLieTogetherAndAlike) {
  const std::string text = Twins("param { name: 'w' }", "param { name: 'w' }");
  StageLayout apart = Layout(1, {1}, {3}, 6);
  apart.stages[0].name = "conv", apart.stages[1].name = "fc";
  EXPECT_EQ(PlanOf(text, apart).message(),
            "layers \"a\" and \"b\" share the parameter \"w\", but are in stages \"conv\" and \"fc\" of the table; "
            "expected both in one stage");
  StageLayout together = Layout(1, {3}, {2}, 6);
  together.stages[1].name = "fc";
  EXPECT_TRUE(PlanOf(text, together).ok()) << PlanOf(text, together);
  EXPECT_TRUE(PlanOf(text, Splits(together, {{2, LayerSplit::kNone}, {3, LayerSplit::kNone}})).ok());
  EXPECT_EQ(
      PlanOf(text, Splits(together, {{3, LayerSplit::kNone}})).message(),
      "layers \"a\" and \"b\" share the parameter \"w\", but the 3 shards of stage \"fc\" have other parts of one "
      "than of the other; expected blobs of one shape and the same split of both layers in the table, or one "
      "shard");
}

// --- Gradients

/// A net of one node with values of its parameters, run on random images.
struct RunningNet {
  explicit RunningNet(const std::string& text, int layers)
      : net(text, Layout(1, {}, {}, layers)), node(net.MakeNet(0, 0, kRows)) {
    for (const ParamPlan& param : node->plan().params()) {
      values.push_back(Random(param.block.count(), values.size()));
      gradients.emplace_back(values.back().size(), 7.0f);  // of no meaning: it must be overwritten
    }
    images = Random(kRows * kSample.count(), 99);
    arena.resize(node->arena_bytes() + 64);
    scratch.resize(node->scratch_bytes() + 64);
  }
  static std::vector<float> Random(int64_t count, size_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed) + 1);
    std::vector<float> numbers(count);
    for (float& number : numbers) number = std::uniform_real_distribution<float>(-0.3f, 0.3f)(random);
    return numbers;
  }
  const ParamPlan& param(size_t i) const { return node->plan().params()[i]; }
  /// Adds the gradients of a micro-batch, or begins with them.
  void Run(bool accumulate) {
    std::vector<ParamView> views;
    std::vector<float*> to;
    packed.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      packed.push_back(std::make_unique<PackedParams>());
      views.push_back({values[i].data(), 1, packed.back().get()});
      to.push_back(gradients[i].data());
    }
    NetRun run;
    run.arena = arena.data();
    run.scratch = scratch.data();
    run.images = images.data();
    run.params = views;
    run.gradients = to;
    run.accumulate = accumulate ? 1 : 0;
    run.batch.global_rows = kRows;
    run.batch.labels = run.batch.batch_labels = labels;
    for (int segment = 0; segment < node->segments(); ++segment) node->Forward(segment, run);
    for (int segment = node->segments(); segment-- > 0;) node->Backward(segment, run, [](const NetStep&) {});
    loss = node->ValueOf(node->outputs()[0].tensor, run).floats()[0];
  }

  static constexpr int64_t kRows = 4;
  const PlacedNet net;
  const std::unique_ptr<NodeNet> node;
  std::vector<std::vector<float>> values, gradients;
  std::vector<float> images;
  const std::vector<float> labels = {3, 0, 9, 3};
  std::vector<std::byte> arena, scratch;
  std::vector<std::unique_ptr<PackedParams>> packed;
  float loss = 0;
};

struct SharingCase {
  const char* name;
  std::string layers;  ///< between the data, with `half`, and the loss of a and b; "@w" is the name "w" of a parameter
  int count;           ///< of all layers of the net
};

void PrintTo(const SharingCase& c, std::ostream* out) { *out << c.name; }

class SharedGradients : public testing::TestWithParam<SharingCase> {
 protected:
  static std::string Text(bool shared) {
    std::string text = kBegin + GetParam().layers + kEnd;
    const std::string any_shape = " share_mode: PERMISSIVE";
    for (const std::string& token : {"@w" + any_shape, std::string("@u"), std::string("@v"), std::string("@w")}) {
      const std::string name = "name: '" + token.substr(1, 1) + "'" + token.substr(2);
      for (size_t at = 0; (at = text.find(token, at)) != std::string::npos;) {
        text.replace(at, token.size(), shared ? name : "");
      }
    }
    return text;
  }
};

TEST_P(SharedGradients, AreTheSumOfThoseOfLayersWithoutNames) {
  RunningNet shared(Text(true), GetParam().count), apart(Text(false), GetParam().count);
  ASSERT_LT(shared.values.size(), apart.values.size());
  std::vector<size_t> owners;  // by parameter of the net without names
  for (size_t i = 0; i < apart.values.size(); ++i) {
    const SharedParams::Param* const param = shared.net.graph->shared().Find(apart.param(i).layer, apart.param(i).blob);
    const SharedParams::Use own{apart.param(i).layer, apart.param(i).blob};
    const SharedParams::Use& owner = param == nullptr ? own : param->uses[0];
    for (size_t j = 0; j < shared.values.size(); ++j) {
      if (shared.param(j).layer == owner.layer && shared.param(j).blob == owner.blob) owners.push_back(j);
    }
    ASSERT_EQ(owners.size(), i + 1);
    apart.values[i] = shared.values[owners[i]];
  }
  std::vector<std::vector<float>> expected;
  for (const auto& values : shared.values) expected.emplace_back(values.size(), 0.0f);
  apart.Run(false);
  for (size_t i = 0; i < owners.size(); ++i) {
    for (size_t k = 0; k < expected[owners[i]].size(); ++k) expected[owners[i]][k] += apart.gradients[i][k];
  }
  for (const int batches : {1, 2}) {
    shared.Run(batches > 1);
    EXPECT_NEAR(shared.loss, apart.loss, 1e-6f);
    for (size_t j = 0; j < expected.size(); ++j) {
      for (size_t k = 0; k < expected[j].size(); ++k) {
        EXPECT_NEAR(shared.gradients[j][k], static_cast<float>(batches) * expected[j][k], 2e-5f)
            << shared.param(j).layer << " " << shared.param(j).blob << ", element " << k;
      }
    }
  }
}

// Caffe's layers keep a share of the averages and add to them, one behind the other.
TEST(SharedAverages, EachLayerKeepsItsShareOfThoseInFront) {
  const std::string of_a = "moving_average_fraction: 0.9", of_b = "moving_average_fraction: 0.8";
  RunningNet shared(NormTwins(kAverages, kAverages, of_a, of_b), 8), apart(NormTwins("", "", of_a, of_b), 8);
  ASSERT_EQ(shared.values.size(), 7u);
  ASSERT_EQ(apart.values.size(), 10u);
  apart.Run(false);
  for (const int batches : {1, 2}) {
    shared.Run(batches > 1);
    for (size_t blob = 0; blob < 3; ++blob) {
      ASSERT_EQ(shared.param(blob).layer, "na");
      ASSERT_EQ(apart.param(blob + 3).layer, "nb");
      EXPECT_FLOAT_EQ(*shared.param(blob).spec.average_keeps, 0.72f);
      EXPECT_EQ(shared.param(blob).spec.lr_mult, 1);
      for (size_t i = 0; i < shared.gradients[blob].size(); ++i) {
        const float once = 0.8f * apart.gradients[blob][i] + apart.gradients[blob + 3][i];
        EXPECT_NEAR(shared.gradients[blob][i], static_cast<float>(batches) * once, 1e-5f) << blob << ", " << i;
      }
    }
  }
}

std::string Convolution(const std::string& name, const std::string& bottom, const std::string& params) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name + "' " + params +
         " convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n";
}

const SharingCase kSharing[] = {
    {"Products", Product("a", "data", "param { @w } param { @v }") + Product("b", "half", "param { @w } param { @v }"),
     6},
    {"WeightsAlone", Product("a", "data", "param { @w }") + Product("b", "half", "param { @w }"), 6},
    {"BiasesAlone", Product("a", "data", "param { } param { @v }") + Product("b", "half", "param { } param { @v }"), 6},
    {"Convolutions",
     Convolution("c", "data", "param { @w } param { @v }") + Convolution("d", "half", "param { @w } param { @v }") +
         Product("a", "c", "") + Product("b", "d", ""),
     8},
    // As many elements, in another order of axes.
    {"Permissive",
     Product("a", "data", "param { @w }", "num_output: 10 bias_term: false") +
         "layer { name: 'view' type: 'Reshape' bottom: 'half' top: 'view' reshape_param { shape { dim: 0 "
         "dim: 192 dim: 1 dim: 1 } } }\n"
         "layer { name: 'c' type: 'Convolution' bottom: 'view' top: 'c' param { @w share_mode: PERMISSIVE "
         "} convolution_param { num_output: 10 kernel_size: 1 bias_term: false } }\n"
         "layer { name: 'b' type: 'Flatten' bottom: 'c' top: 'b' }\n",
     8},
    // One behind the other, three times, and one between that shares with others.
    {"InARow",
     Product("first", "data", "") + Product("r1", "first", "param { @w } param { @v }") +
         Product("r2", "r1", "param { @w } param { @u }") + Product("a", "r2", "param { @w } param { @v }") +
         Product("b", "half", "param { } param { @u }"),
     9},
};

INSTANTIATE_TEST_SUITE_P(Nets, SharedGradients, testing::ValuesIn(kSharing),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp::test
