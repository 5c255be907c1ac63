// What the formulas say of a division, beside the plan of a whole job under the table that is made of it.
#include "scheduler/planner/divided_net.h"

#include "scheduler/plan/net_tail.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/planner/planner.h"
#include "test/support/small_job.h"
#include "test/unit/planner/planned_bytes.h"

#include <gmock/gmock.h>

namespace hp {
namespace {

constexpr double kFloatSize = 4;
constexpr double kBoundary = kFloatSize * 8 * 3 * 3;  // pool1 of one sample
constexpr int kFc6 = 4, kFc7 = 6, kFc8 = 8;

std::unique_ptr<DividedNet> Divide(NetDivision division) {
  auto net = DividedNet::Create(TailNet(), {1, 8, 8}, division, 24);
  EXPECT_TRUE(net.ok()) << net.status();
  return net.ok() ? *std::move(net) : nullptr;
}

NetDivision Tail(int shards, std::vector<int> by_inputs = {}, bool scattered = false, int cut = kFc6) {
  NetDivision division;
  division.cut = cut;
  division.shards = shards;
  division.scattered = scattered;
  division.replicated = true;
  for (const int layer : by_inputs) division.splits.emplace_back(layer, LayerSplit::kInputs);
  return division;
}

NetDivision Bfloat16(NetDivision division) {
  division.wire = ElementType::kBFloat16;
  return division;
}

// The table of scheduler/README.md, "Bytes", for one sample.
TEST(DividedNetTest, BytesAreThoseOfTheFormulas) {
  const NetTraffic direct = Divide(Tail(4))->traffic();
  EXPECT_EQ(direct.replica_out, 4 * kBoundary);
  EXPECT_EQ(direct.shard_in, kBoundary);
  // fc6 and fc7 are gathered, each shard gets 3/4 of them, and as much of the gradients of its own quarter; 3 numbers
  // of each row of the loss from each of three others.
  const double gathered = 2 * 0.75 * kFloatSize * (40 + 20) + 3 * kFloatSize * 3;
  EXPECT_EQ(direct.inner_in, gathered);
  EXPECT_EQ(direct.inner_out, gathered);
  const NetTraffic scattered = Divide(Tail(4, {}, true))->traffic();
  EXPECT_EQ(scattered.replica_out, kBoundary);
  EXPECT_EQ(scattered.shard_in, kBoundary / 4);
  EXPECT_EQ(scattered.inner_in, gathered + 2 * 0.75 * kBoundary);
  const NetTraffic inputs = Divide(Tail(4, {kFc6}))->traffic();
  EXPECT_EQ(inputs.replica_out, kBoundary);
  EXPECT_EQ(inputs.shard_in, kBoundary / 4);
  const NetTraffic alternating = Divide(Tail(4, {kFc7}))->traffic();
  EXPECT_EQ(alternating.inner_in, 2 * 0.75 * kFloatSize * (20 + 20) + 3 * kFloatSize * 3)
      << "nothing between fc6 and fc7; fc7's addends, and then fc7 gathered for fc8";
  EXPECT_EQ(direct.exchanged, kFloatSize * (8 * 9 + 8)) << "conv1's parameters";
  NetDivision alone;
  EXPECT_EQ(Divide(alone)->traffic().exchanged, 0);
}

struct Case {
  NetDivision division;
  int replicas;
  bool beside;
  int servers = 0;
};

class DivisionPlan : public testing::TestWithParam<Case> {};

TEST_P(DivisionPlan, PredictsTheBytesOfEveryNodeOfTheJob) {
  const Case& c = GetParam();
  PlanProblem problem;
  problem.net = TailNet();
  problem.sample = {1, 8, 8};
  problem.work.batch = 24;
  if (c.division.wire == ElementType::kBFloat16) problem.wire_precision = RoutingTableConfig::BF16;
  std::vector<std::string> names;
  const int others = c.beside ? std::max(c.replicas, c.division.shards) : c.replicas + c.division.shards;
  const int nodes = others + c.servers;
  for (int i = 0; i < nodes; ++i) names.push_back("h" + std::to_string(i));
  problem.hosts = LikeHosts(names, HostConfig()).value();
  TablePlan plan;
  NetDivision division = c.division;
  division.replicated = c.replicas > 1;
  plan.net = Divide(division);
  plan.beside = c.beside;
  plan.micro_batches = 2;
  for (int i = 0; i < c.replicas; ++i) plan.nodes.conv.push_back(i);
  for (int i = c.replicas; i < others; ++i) plan.nodes.fc.push_back(i);
  for (int i = others; i < nodes; ++i) plan.nodes.ps.push_back(i);
  TableRequest request = RequestOf(problem, plan);
  request.solver = "solver.prototxt";
  const auto config = MakeTable(request, *problem.net);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto table = RoutingTable::Create(*config, "/job/table.prototxt");
  ASSERT_TRUE(table.ok()) << table.status();
  const auto job = PlanOf(*table, *problem.net, Parse<caffe::SolverParameter>("max_iter: 10"));
  ASSERT_TRUE(job.ok()) << job.status();

  // Each node a group of its own.
  std::vector<HostGroup> groups;
  for (int i = 0; i < nodes; ++i) {
    const bool conv = i < c.replicas, server = i >= others;
    const bool shard = c.beside ? i < c.division.shards : !conv && !server;
    groups.push_back({i, 1, conv, shard, conv && shard, conv ? 24.0 / c.replicas : 0, i, server});
  }
  Predictor predictor(problem.hosts, problem.work);
  const Prediction prediction = predictor.Predict(*plan.net, 2, groups);
  for (Rank rank = 0; rank < nodes; ++rank) {
    const auto [out, in] = BytesOf(**job, rank);
    EXPECT_NEAR(prediction.loads[rank].out, out, 1e-6 * out) << "rank " << rank;
    EXPECT_NEAR(prediction.loads[rank].in, in, 1e-6 * in) << "rank " << rank;
  }
}

// A GPU's tasks are not interrupted: each round waits for passes of the one before it on the other node.
TEST(PredictorTest, ShardsBesideReplicasOnGpusWaitForEachOtherFromTheSecondRoundOn) {
  const std::vector<HostGroup> beside = {{0, 2, 1, 1, true, 12, 0}};
  const auto net = Divide(Tail(2));
  const auto seconds = [&](const std::string& device, int rounds) {
    const auto like = Parse<HostConfig>("gflops: 1 memory_gb_per_s: 20 latency_us: 1");
    const Hosts hosts = LikeHosts({"h0" + device, "h1" + device}, like).value();
    return Predictor(hosts, {.batch = 24}).Predict(*net, rounds, beside).seconds;
  };
  const std::string gpu = "/cuda:0";
  EXPECT_GT(seconds(gpu, 2), 1.3 * seconds(gpu, 1));
  EXPECT_GT(seconds(gpu, 4), 1.3 * seconds(gpu, 2));
  EXPECT_LT(seconds("", 2), 1.3 * seconds("", 1)) << "a CPU's are";
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, DivisionPlan,
    testing::Values(Case{{}, 1, false}, Case{{}, 4, false}, Case{Tail(1), 1, false}, Case{Tail(1), 3, false},
                    Case{Tail(4), 2, false}, Case{Tail(4, {}, true), 3, false},
                    Case{Tail(2, {kFc6, kFc7, kFc8}), 3, false}, Case{Tail(4, {kFc7}), 2, false},
                    Case{Tail(4, {kFc6, kFc8}), 4, false}, Case{Tail(2, {}, false, kFc7), 2, false},
                    Case{Tail(4, {kFc8}, true, kFc8), 2, false}, Case{Tail(2), 2, true},
                    Case{Tail(4, {kFc6, kFc8}), 4, true}, Case{Tail(1), 3, true}, Case{Tail(2, {kFc7}), 4, true},
                    Case{Tail(4), 2, true}, Case{Tail(4, {kFc6, kFc8}), 1, true}, Case{{}, 3, false, 1},
                    Case{Tail(2), 2, false, 1}, Case{Tail(1), 2, true, 1}, Case{Bfloat16(Tail(4, {kFc7})), 2, false},
                    Case{Bfloat16(Tail(4, {}, true)), 3, true}));

// Two losses, the first one of which a convolution follows.
constexpr char kSideNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 24 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 8 kernel_size: 3 } }
    layer { name: "side/conv" type: "Convolution" bottom: "conv1" top: "side/conv"
            convolution_param { num_output: 2 kernel_size: 3 } }
    layer { name: "side/fc" type: "InnerProduct" bottom: "side/conv" top: "side/fc"
            inner_product_param { num_output: 20 } }
    layer { name: "side/relu" type: "ReLU" bottom: "side/fc" top: "side/fc" }
    layer { name: "side/top" type: "InnerProduct" bottom: "side/fc" top: "side/top"
            inner_product_param { num_output: 12 } }
    layer { name: "side/loss" type: "SoftmaxWithLoss" bottom: "side/top" bottom: "label" top: "side/loss" }
    layer { name: "gate" type: "InnerProduct" bottom: "conv1" top: "gate" inner_product_param { num_output: 288 } }
    layer { name: "shaped" type: "Flatten" bottom: "conv1" top: "shaped" }
    layer { name: "sum" type: "Eltwise" bottom: "gate" bottom: "shaped" top: "sum" }
    layer { name: "fc" type: "InnerProduct" bottom: "sum" top: "fc" inner_product_param { num_output: 12 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" })";

TEST(DividedNetTest, EachHistoryTakesTheMemoryOfWhatLearns) {
  const auto net = Divide(Tail(4));
  const auto of = [&](int histories) { return net->MemoryOf(net->replica(), 3, 2, histories); };
  EXPECT_EQ(of(2) - of(1), kFloatSize * (8 * 9 + 8)) << "conv1's parameters";
}

TEST(DividedNetTest, SideClassifiersAreWhatEndsInFrontOfTheCut) {
  const auto net = std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(kSideNet));
  constexpr int kFc = 10;
  ASSERT_EQ(net->layer(kFc).name(), "fc");
  EXPECT_THAT(SideClassifiers(*net, kFc), testing::ElementsAre(3, 4, 5, 6)) << "the gate leads to what is behind";
  NetDivision division = Tail(2, {}, false, kFc);
  const auto bytes = [&] {
    auto divided = DividedNet::Create(net, {1, 8, 8}, division, 24);
    EXPECT_TRUE(divided.ok()) << divided.status();
    return (*divided)->traffic();
  };
  const NetTraffic without = bytes();
  division.sides = true;
  const NetTraffic with = bytes();
  EXPECT_EQ(with.replica_out - without.replica_out, 2 * kFloatSize * 2 * 4 * 4) << "side/conv to two shards";
  EXPECT_EQ(without.exchanged - with.exchanged, kFloatSize * (20 * 32 + 20 + 12 * 20 + 12));
}

TEST(DividedNetTest, TheTableHasItsSideClassifiersByName) {
  const auto net = Parse<caffe::NetParameter>(kSideNet);
  TableRequest request;
  request.solver = "solver.prototxt";
  request.hosts = {"h"};
  request.fc = {2};
  request.cut = {"fc"};
  request.side_classifiers = true;
  const auto config = MakeTable(request, net);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->stage(1).layer(), testing::ElementsAre("side/fc", "side/relu", "side/top", "side/loss"));
  request.fc.clear();
  request.cut.clear();
  EXPECT_THAT(MakeTable(request, net).status().message(),
              testing::HasSubstr("--side_classifiers goes with an FC stage, and --fc asks for none"));
  request.fc = {1};
  EXPECT_THAT(MakeTable(request, *TailNet()).status().message(),
              testing::HasSubstr("--side_classifiers: the net has none in front of layer \"fc6\""));
}

}  // namespace
}  // namespace hp
