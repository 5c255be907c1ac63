// Which table the planner takes for known nets on known hosts.
#include "scheduler/planner/planner.h"

#include "proto/text.h"
#include "scheduler/plan/table_check.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Hosts that are alike: h0, h1, ...
Hosts HostsLike(int count, const std::string& figures) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("h" + std::to_string(i));
  auto hosts = LikeHosts(names, Parse<HostConfig>(figures));
  EXPECT_TRUE(hosts.ok()) << hosts.status();
  return hosts.ok() ? *std::move(hosts) : Hosts();
}

PlanProblem ProblemOf(const caffe::NetParameter& net, const Shape& sample, int64_t batch, Hosts hosts) {
  PlanProblem problem;
  problem.net = std::make_shared<const caffe::NetParameter>(net);
  problem.sample = sample;
  problem.hosts = std::move(hosts);
  problem.work.batch = batch;
  return problem;
}

PlanProblem ExampleProblem(const std::string& name, int64_t crop, int64_t batch, Hosts hosts) {
  auto net = ReadNet("examples/" + name + "/" + name + "_train_val.prototxt");
  EXPECT_TRUE(net.ok()) << net.status();
  if (!net.ok()) return {};
  net->mutable_layer(0)->mutable_data_param()->set_batch_size(static_cast<uint32_t>(batch));
  return ProblemOf(*net, {3, crop, crop}, batch, std::move(hosts));
}

PlanChoice Choose(const PlanProblem& problem) {
  auto choice = ChoosePlan(problem);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? *std::move(choice) : PlanChoice();
}

/// Every plan becomes a table without faults.
void ExpectTables(const PlanProblem& problem, const PlanChoice& choice) {
  for (const TablePlan& plan : choice.plans) {
    TableRequest request = RequestOf(problem, plan);
    request.solver = "solver.prototxt";
    const auto config = MakeTable(request, *problem.net);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->node_size(), static_cast<int>(plan.places().size()));
  }
}

constexpr char kServer[] = "cores: 8 gflops: 400 memory_mb: 65536 ";

TEST(PlannerTest, ATinyNetOnSlowLinksStaysOnOneMachine) {
  const PlanProblem problem = ProblemOf(Parse<caffe::NetParameter>(kJobNet), {1, 8, 8}, 8,
                                        HostsLike(4, std::string(kServer) + "link_gbit_per_s: 0.1 latency_us: 500"));
  const PlanChoice choice = Choose(problem);
  EXPECT_TRUE(choice.plans[0].one_node());
  EXPECT_THAT(DescribeChoice(problem, choice), HasSubstr("One machine is best: the best table for more hosts"));
  ExpectTables(problem, choice);
}

TEST(PlannerTest, NetsWithLargeFcLayersAreHybridOnGigabitLinks) {
  for (const auto& [name, crop, batch] : {std::tuple("alexnet", 227, 256), std::tuple("vgg16", 224, 64)}) {
    const PlanProblem problem =
        ExampleProblem(name, crop, batch, HostsLike(4, std::string(kServer) + "link_gbit_per_s: 1"));
    const PlanChoice choice = Choose(problem);
    const TablePlan& best = choice.plans[0];
    EXPECT_GT(best.shards(), 0) << name;
    EXPECT_EQ(problem.net->layer(best.net->division().cut).name(), "fc6");
    ASSERT_TRUE(choice.one_node && choice.data_parallel);
    EXPECT_GT(best.prediction.samples_per_second(), 1.2 * choice.data_parallel->prediction.samples_per_second());
    EXPECT_GT(best.prediction.samples_per_second(), 2 * choice.one_node->prediction.samples_per_second());
    const std::string reasons = DescribeChoice(problem, choice);
    for (const char* part : {"predicted: ", "bottleneck: host", "limit max(compute, bytes / bandwidth)",
                             "against one machine", "against plain data parallelism", "next best:\n  1. "}) {
      EXPECT_THAT(reasons, HasSubstr(part));
    }
    ExpectTables(problem, choice);
  }
}

TEST(PlannerTest, ANetOfConvolutionsIsDataParallelOnFastLinks) {
  PlanProblem problem =
      ExampleProblem("googlenet", 224, 32, HostsLike(4, std::string(kServer) + "link_gbit_per_s: 25"));
  auto net = std::make_shared<caffe::NetParameter>();
  for (const caffe::LayerParameter& layer : problem.net->layer()) {
    const bool side = layer.name().starts_with("loss1/") || layer.name().starts_with("loss2/");
    if (!side) *net->add_layer() = layer;
  }
  problem.net = net;
  const PlanChoice choice = Choose(problem);
  EXPECT_TRUE(choice.plans[0].data_parallel());
  EXPECT_EQ(choice.plans[0].replicas(), 4);
  EXPECT_THAT(DescribeChoice(problem, choice), HasSubstr("Plain data parallelism is best: "));
  ExpectTables(problem, choice);
}

TEST(PlannerTest, LayersThatNormaliseByAMicroBatchKeepItWhole) {
  PlanProblem problem =
      ExampleProblem("alexnet", 227, 256, HostsLike(4, "gflops: 10000 memory_mb: 64000 link_gbit_per_s: 1"));
  const auto most = [](const PlanChoice& choice) {
    int most = 0;
    for (const TablePlan& plan : choice.plans) most = std::max(most, plan.micro_batches);
    return most;
  };
  EXPECT_GT(most(Choose(problem)), 1);
  caffe::NetParameter net = *problem.net;
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "LRN") continue;
    layer.set_type("BatchNorm");
    layer.clear_lrn_param();
  }
  problem.net = std::make_shared<const caffe::NetParameter>(net);
  const PlanChoice choice = Choose(problem);
  ASSERT_FALSE(choice.plans.empty());
  EXPECT_EQ(most(choice), 1);
  EXPECT_FALSE(WithMicroBatches(problem, choice.plans[0], 2).has_value());
  ExpectTables(problem, choice);
}

TEST(PlannerTest, SideClassifiersGoToTheShardsOnSlowLinks) {
  const PlanProblem problem =
      ExampleProblem("googlenet", 224, 32, HostsLike(4, std::string(kServer) + "link_gbit_per_s: 0.5"));
  const PlanChoice choice = Choose(problem);
  // Which chains are faster, only a simulation knows.
  const auto best =
      std::find_if(choice.plans.begin(), choice.plans.end(), [](const TablePlan& plan) { return plan.chain.empty(); });
  ASSERT_NE(best, choice.plans.end());
  EXPECT_TRUE(best->net->division().sides) << "half of the net's parameters are theirs";
  EXPECT_THAT(DescribeChoice(problem, choice), HasSubstr(" from loss3/classifier and of side classifiers"));
  ExpectTables(problem, choice);
}

// No InnerProduct, so that there is nothing to split.
constexpr char kConvNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 4 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 4 kernel_size: 3 } }
    layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
            convolution_param { num_output: 50 kernel_size: 6 } }
    layer { name: "conv3" type: "Convolution" bottom: "conv2" top: "conv3"
            convolution_param { num_output: 7 kernel_size: 1 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "conv3" bottom: "label" top: "loss" })";

TEST(PlannerTest, ServersTakeHostsThatABatchLeavesOver) {
  // Four samples for twelve hosts; on slow links four replicas send all gradients to servers once, and 1.5 times else.
  const PlanProblem problem = ProblemOf(Parse<caffe::NetParameter>(kConvNet), {1, 8, 8}, 4,
                                        HostsLike(12, "gflops: 0.01 link_gbit_per_s: 0.05 latency_us: 50"));
  const PlanChoice choice = Choose(problem);
  const TablePlan& best = choice.plans[0];
  EXPECT_EQ(best.replicas(), 4);
  EXPECT_GT(best.servers(), 1);
  ASSERT_TRUE(choice.data_parallel);
  EXPECT_LT(best.seconds(), choice.data_parallel->seconds());
  EXPECT_THAT(DescribeChoice(problem, choice), HasSubstr("plan: data parallelism over 4 nodes with "));
  ExpectTables(problem, choice);
}

TEST(PlannerTest, GpusHaveNoServers) {
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back("h" + std::to_string(i) + "/cuda:0");
  const auto hosts = LikeHosts(names, Parse<HostConfig>("gflops: 0.01 link_gbit_per_s: 0.05 latency_us: 50"));
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  const PlanProblem problem = ProblemOf(Parse<caffe::NetParameter>(kConvNet), {1, 8, 8}, 4, *hosts);
  for (const TablePlan& plan : Choose(problem).plans) EXPECT_EQ(plan.servers(), 0);
}

TEST(PlannerTest, UnequalHostsGetSharesInProportionToTheirSpeed) {
  auto hosts = HostsOf(Parse<HostsConfig>(R"(
      host { name: "slow" gflops: 200 memory_gb_per_s: 10 memory_mb: 65536 link_gbit_per_s: 25 }
      host { name: "fast" gflops: 600 memory_gb_per_s: 30 memory_mb: 65536 link_gbit_per_s: 25 })"),
                       "hosts.prototxt");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  const PlanProblem problem = ExampleProblem("googlenet", 224, 64, *hosts);
  const PlanChoice choice = Choose(problem);
  const TablePlan& best = choice.plans[0];
  ASSERT_EQ(best.replicas(), 2);
  ASSERT_EQ(best.shares.size(), 2u);
  EXPECT_NEAR(1.0 * best.shares[1] / best.shares[0], 3, 0.25);
  const TableRequest request = RequestOf(problem, best);
  EXPECT_THAT(request.hosts, ElementsAre("slow", "fast"));
  EXPECT_EQ(request.shares, best.shares);
  const auto table = MakeTable(
      [&] {
        TableRequest with = request;
        with.solver = "s";
        return with;
      }(),
      *problem.net);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->node(1).share(), best.shares[1]) << "the table has them";
  ASSERT_EQ(best.groups.size(), 2u);
  EXPECT_NEAR(best.prediction.loads[0].replica_s / best.prediction.loads[1].replica_s, 1, 0.1)
      << "both are done at the same time";
}

TEST(PlannerTest, MoreHostsThanABatchHasSamples) {
  const PlanProblem problem =
      ExampleProblem("alexnet", 227, 256, HostsLike(1000, std::string(kServer) + "link_gbit_per_s: 10"));
  const PlanChoice choice = Choose(problem);
  const TablePlan& best = choice.plans[0];
  EXPECT_GT(best.replicas(), 8);
  EXPECT_LE(best.replicas() * best.micro_batches, 256);
  ExpectTables(problem, choice);
  for (size_t i = 1; i < choice.plans.size(); ++i) {
    // Within the margins by which simpler tables win.
    EXPECT_LT(choice.plans[i].prediction.samples_per_second(), 1.07 * best.prediction.samples_per_second());
  }
}

TEST(PlannerTest, ThousandHostsOfAllSpeeds) {
  HostsConfig config;
  for (int i = 0; i < 1000; ++i) {
    HostConfig* const host = config.add_host();
    host->set_name("h" + std::to_string(i));
    host->set_gflops(200 + i * 37 % 400);
    host->set_memory_mb(65536);
  }
  PlanProblem problem = ExampleProblem("alexnet", 227, 4096, HostsOf(config, "hosts.prototxt").value());
  const PlanChoice choice = Choose(problem);
  ExpectTables(problem, choice);
  // Who is faster has no smaller share.
  const TablePlan& best = choice.plans[0];
  ASSERT_EQ(best.shares.size(), best.nodes.conv.size());
  for (size_t i = 1; i < best.nodes.conv.size(); ++i) {
    const auto speed = [&](size_t n) { return problem.hosts.places[best.nodes.conv[n]].speed.flops; };
    if (speed(i) > 1.1 * speed(0)) {
      EXPECT_GE(best.shares[i], best.shares[0]);
    }
  }
}

TEST(PlannerTest, GpusOfAHostAreNodesOfTheirOwn) {
  auto hosts = HostsOf(Parse<HostsConfig>(R"(
      host { name: "a" device: "cuda:0-3" memory_mb: 65536 link_gbit_per_s: 100 }
      host { name: "b" device: "cuda:0-3" memory_mb: 65536 link_gbit_per_s: 100 })"),
                       "hosts.prototxt");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  const PlanProblem problem = ExampleProblem("vgg16", 224, 256, *hosts);
  const PlanChoice choice = Choose(problem);
  EXPECT_GT(choice.plans[0].replicas(), 4);
  EXPECT_THAT(RequestOf(problem, choice.plans[0]).hosts, testing::Contains("b/cuda:3"));
  ExpectTables(problem, choice);
}

TEST(PlannerTest, HostsThatCannotHoldTheNetAreNamedWithWhatTheyLack) {
  const PlanProblem problem = ExampleProblem("alexnet", 227, 256, HostsLike(2, "memory_mb: 100"));
  const Status status = ChoosePlan(problem).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::ContainsRegex("the hosts can't hold the net: .* on host \"h[01]\", which has "
                                                       "104\\.9 MB: [0-9.]+ MB too little"));
}

TEST(PlannerTest, ANetThatOneHostCannotHoldIsSpreadOverSeveral) {
  const PlanProblem problem =
      ExampleProblem("alexnet", 227, 64, HostsLike(4, "memory_mb: 600 gflops: 400 link_gbit_per_s: 10"));
  const PlanChoice choice = Choose(problem);
  EXPECT_FALSE(choice.one_node);
  EXPECT_GT(choice.plans[0].shards(), 1) << "730 MB of parameters, gradients and histories";
  EXPECT_THAT(DescribeChoice(problem, choice), HasSubstr("One machine can't hold the net."));
}

}  // namespace
}  // namespace hp
