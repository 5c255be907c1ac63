// What chains there are, and what the formulas say of them, beside the plan of a whole job under the table that is
// made.
#include "scheduler/planner/chains.h"

#include "proto/text.h"
#include "scheduler/planner/planner.h"
#include "test/support/small_job.h"
#include "test/unit/planner/planned_bytes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace hp {
namespace {

constexpr char kGpu[] = "device: \"cuda:0\" latency_us: 20 ";

PlanProblem Problem(std::shared_ptr<const caffe::NetParameter> net, const Shape& sample, int64_t batch, int hosts,
                    const std::string& figures) {
  PlanProblem problem;
  problem.net = std::move(net);
  problem.sample = sample;
  problem.work.batch = batch;
  HostsConfig config;
  for (int i = 0; i < hosts; ++i) {
    *config.add_host() = Parse<HostConfig>("name: \"h" + std::to_string(i) + "\" " + figures);
  }
  problem.hosts = HostsOf(config, "hosts.prototxt").value();
  return problem;
}

PlanProblem Vgg(int hosts, const std::string& figures) {
  auto net = ReadNet("examples/vgg16/vgg16_train_val.prototxt");
  EXPECT_TRUE(net.ok()) << net.status();
  net->mutable_layer(0)->mutable_data_param()->set_batch_size(32);
  return Problem(std::make_shared<const caffe::NetParameter>(*std::move(net)), {3, 224, 224}, 32, hosts, figures);
}

std::vector<TablePlan> Chains(const PlanProblem& problem, size_t most = 100) {
  std::vector<int> order(problem.hosts.places.size());
  std::iota(order.begin(), order.end(), 0);
  auto planner = ChainPlanner::Create(problem);
  EXPECT_TRUE(planner.ok()) << planner.status();
  return planner.ok() ? (*planner)->Best(order, most) : std::vector<TablePlan>();
}

/// Of one conv layer, of shared ones and of another one behind each other.
std::shared_ptr<const caffe::NetParameter> SharedInTheMiddle() {
  std::string text =
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 32 } }";
  std::string below = "data";
  for (const std::string name : {"a", "b", "c", "d"}) {
    const bool shared = name == "b" || name == "c";
    text += "layer { name: '" + name + "' type: 'Convolution' bottom: '" + below + "' top: '" + name + "' " +
            (shared ? "param { name: 'w' } " : "") + "convolution_param { num_output: 64 kernel_size: 3 pad: 1 } }";
    below = name;
  }
  text +=
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'ip' inner_product_param { num_output: 10 } }"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }";
  return std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(text));
}

std::vector<std::string> Firsts(const PlanProblem& problem, const TablePlan& plan) {
  std::vector<std::string> firsts;
  for (const ChainStage& stage : plan.chain) firsts.push_back(problem.net->layer(stage.first).name());
  return firsts;
}

RoutingTableConfig TableOf(const PlanProblem& problem, const TablePlan& plan) {
  TableRequest request = RequestOf(problem, plan);
  request.solver = "solver.prototxt";
  const auto config = MakeTable(request, *problem.net);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : RoutingTableConfig();
}

TEST(ChainsTest, OnASlowLinkTheConvLayersAreCutWhereHalfOfTheWorkIsDone) {
  const PlanProblem problem = Vgg(2, std::string(kGpu) + "link_gbit_per_s: 1");
  const auto choice = ChoosePlan(problem);
  ASSERT_TRUE(choice.ok()) << choice.status();
  const TablePlan& best = choice->plans[0];
  EXPECT_THAT(Firsts(problem, best), testing::ElementsAre("data", "conv4_1"));
  EXPECT_GT(best.samples_per_second(), 1.3 * choice->one_node->samples_per_second());
  EXPECT_FALSE(best.one_node() || best.data_parallel());
  EXPECT_THAT(DescribeChoice(problem, *choice),
              testing::HasSubstr("plan: stages from data on 1 conv node, conv4_1 on 1 conv node, 32 micro-batches"));
  const RoutingTableConfig config = TableOf(problem, best);
  ASSERT_EQ(config.stage_size(), 2);
  EXPECT_EQ(config.stage(0).to_layer(), "pool3");
  EXPECT_EQ(config.node(1).host(), "h1");
}

// What is proposed can be planned: no stage ends between layers that share a parameter.
TEST(ChainsTest, LayersThatShareParametersStayTogether) {
  const PlanProblem problem =
      Problem(SharedInTheMiddle(), {64, 8, 8}, 32, 4, "cores: 1 gflops: 0.01 link_gbit_per_s: 100");
  const std::vector<TablePlan> plans = Chains(problem);
  ASSERT_FALSE(plans.empty());
  for (const TablePlan& plan : plans) EXPECT_THAT(Firsts(problem, plan), testing::Not(testing::Contains("c")));
}

/// Convolutions, and a loss with a label for each pixel.
std::shared_ptr<const caffe::NetParameter> ScoresOfPixels() {
  auto net = std::make_shared<caffe::NetParameter>(*SharedInTheMiddle());
  net->mutable_layer()->DeleteSubrange(5, 1);
  net->mutable_layer(5)->set_bottom(0, "d");
  return net;
}

TEST(ChainsTest, LabelsOfPixelsKeepTheirLossWithTheSamples) {
  PlanProblem problem = Problem(ScoresOfPixels(), {64, 8, 8}, 32, 4, "cores: 1 gflops: 0.01 link_gbit_per_s: 100");
  problem.sample.label = {1, 8, 8};
  EXPECT_FALSE(Chains(problem).empty());
  const auto choice = ChoosePlan(problem);
  ASSERT_TRUE(choice.ok()) << choice.status();
  for (const TablePlan& plan : choice->plans) EXPECT_TRUE(plan.chain.empty() && plan.shards() == 0);
}

TEST(ChainsTest, OnAFastLinkReplicasAreFaster) {
  const auto choice = ChoosePlan(Vgg(2, std::string(kGpu) + "link_gbit_per_s: 100"));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->plans[0].chain.empty());
}

TEST(ChainsTest, ANetThatNoHostCanHoldIsCut) {
  const std::string small = "cores: 2 link_gbit_per_s: 10 memory_mb: ";
  const auto choice = ChoosePlan(Vgg(16, small + "230"));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_FALSE(choice->plans[0].chain.empty());
  EXPECT_FALSE(choice->one_node.has_value());
  EXPECT_THAT(ChoosePlan(Vgg(16, small + "60")).status().message(), testing::HasSubstr("the hosts can't hold the net"));
}

TEST(ChainsTest, EveryChainIsATableWithTheBytesThatWerePredicted) {
  const PlanProblem problem = Problem(TailNet(), {1, 8, 8}, 24, 6, "cores: 1 gflops: 0.01 link_gbit_per_s: 100");
  const std::vector<TablePlan> plans = Chains(problem);
  ASSERT_GT(plans.size(), 3u);
  bool two_conv = false, two_fc = false;
  for (const TablePlan& plan : plans) {
    SCOPED_TRACE(testing::PrintToString(Firsts(problem, plan)));
    const auto table = RoutingTable::Create(TableOf(problem, plan), "/job/table.prototxt");
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ(table->size(), static_cast<int>(plan.places().size()));
    const auto job = PlanOf(*table, *problem.net, Parse<caffe::SolverParameter>("max_iter: 10"));
    ASSERT_TRUE(job.ok()) << job.status();
    Rank rank = 0;
    for (size_t s = 0; s < plan.chain.size(); ++s) {
      two_fc |= s > 0 && !plan.chain[s - 1].conv;
      two_conv |= s > 0 && plan.chain[s].conv;
      for (int i = 0; i < plan.chain[s].nodes; ++i, ++rank) {
        const auto [out, in] = BytesOf(**job, rank);
        // Predicted without the few numbers of the loss that shards tell each other.
        EXPECT_NEAR(plan.prediction.loads[s].out, out, 0.03 * out) << "rank " << rank;
        EXPECT_NEAR(plan.prediction.loads[s].in, in, 0.03 * in) << "rank " << rank;
      }
    }
  }
  EXPECT_TRUE(two_conv);
  EXPECT_TRUE(two_fc);
}

// Of 100 alike layers some are left to cut at, and stages are still about as large as each other.
TEST(ChainsTest, ADeepNetIsCutIntoLikeParts) {
  std::string text =
      R"(layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 64 } })";
  std::string below = "data";
  for (int i = 0; i < 100; ++i) {
    const std::string name = "conv" + std::to_string(i);
    text += "layer { name: '" + name + "' type: 'Convolution' bottom: '" + below + "' top: '" + name +
            "' convolution_param { num_output: 64 kernel_size: 3 pad: 1 } }";
    below = name;
  }
  text += "layer { name: 'ip' type: 'InnerProduct' bottom: '" + below +
          "' top: 'ip' inner_product_param { num_output: 10 } }"
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }";
  const auto net = std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(text));
  const PlanProblem problem = Problem(net, {64, 16, 16}, 64, 4, std::string(kGpu) + "link_gbit_per_s: 10");
  bool four = false;
  for (const TablePlan& plan : Chains(problem)) {
    const bool alone = std::all_of(plan.chain.begin(), plan.chain.end(),
                                   [](const ChainStage& stage) { return stage.conv && stage.nodes == 1; });
    if (plan.chain.size() != 4 || !alone) continue;
    four = true;
    for (const HostLoad& load : plan.prediction.loads) {
      EXPECT_NEAR(load.replica_s / plan.prediction.loads[0].replica_s, 1, 0.3);
    }
  }
  EXPECT_TRUE(four);
}

TEST(ChainsTest, MoreNodesPay) {
  const PlanProblem problem = Vgg(4, std::string(kGpu) + "link_gbit_per_s: 10");
  for (const TablePlan& plan : Chains(problem)) {
    for (const TablePlan& other : Chains(problem)) {
      if (plan.places().size() <= other.places().size()) continue;
      EXPECT_GT(plan.samples_per_second(), other.samples_per_second());
    }
  }
}

TEST(ChainsTest, OtherMicroBatches) {
  const PlanProblem problem = Vgg(2, std::string(kGpu) + "link_gbit_per_s: 1");
  const std::vector<TablePlan> plans = Chains(problem, 1);
  ASSERT_EQ(plans.size(), 1u);
  const auto fewer = WithMicroBatches(problem, plans[0], 2);
  ASSERT_TRUE(fewer.has_value());
  EXPECT_LT(fewer->samples_per_second(), plans[0].samples_per_second());
  EXPECT_EQ(fewer->prediction.loads[0].out, plans[0].prediction.loads[0].out);
  EXPECT_FALSE(WithMicroBatches(problem, plans[0], 33).has_value()) << "more than samples";
}

}  // namespace
}  // namespace hp
