// A planned job on simulated time: what crosses is what the plan says, and tasks take what their layers cost.
#include "scheduler/simulator/planned_job.h"

#include "scheduler/simulator/simulation.h"
#include "scheduler/simulator/simulation_report.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

#include <map>

namespace hp {
namespace {

using testing::HasSubstr;

// conv1 and pool1 on two replicas, ip1 and ip2 on two shards (kTable, kJobNet); each node on a host of its own.
class PlannedJobTest : public testing::Test {
 protected:
  static constexpr double kProducts = 1e6;  // multiply-adds in a second; bytes are free

  void SetUp() override {
    for (int host = 0; host < table_.size(); ++host) {
      hosts_.hosts.push_back({.name = "host" + std::to_string(host), .link_bytes_per_second = 1e9});
      HostPlace place;
      place.host = host;
      place.device = "cpu";
      place.speed = {.flops = 2 * kProducts, .bytes_per_second = 1e30, .calls_per_second = 1e30};
      hosts_.places.push_back(place);
      places_.push_back(host);
    }
  }
  SimulationResult Simulated(const SimulatedJob& job) {
    const PlannedTimes times(*plan_, hosts_, places_);
    StatusOr<SimulationResult> result = Simulate(job, times);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return *std::move(result);
  }

  const RoutingTable table_ = MakeTable(kTable);
  const std::unique_ptr<JobPlan> plan_ = SmallJob(table_);
  Hosts hosts_;
  std::vector<int> places_;
};

TEST_F(PlannedJobTest, NodesSendWhatThePlanSays) {
  const SimulatedJob job = SimulatedJobOf(*plan_, hosts_, places_, 10);
  const SimulationResult result = Simulated(job);
  ASSERT_EQ(job.exchanges.size(), 1u);
  int64_t conv_bytes = 0;
  for (const ParamOwners& param : plan_->params()) {
    if (param.layer == "conv1") conv_bytes += param.spec.shape.count() * 4;
  }
  ASSERT_EQ(job.exchanges[0].collectives.size(), 1u);
  EXPECT_EQ(job.exchanges[0].collectives[0].bytes, conv_bytes);
  for (Rank rank = 0; rank < table_.size(); ++rank) {
    int64_t sent = rank < 2 ? conv_bytes : 0;  // two replicas: 2 (n - 1) / n is 1
    for (const MsgId id : plan_->schedule().TrainIds(0, plan_->ShareOf(rank))) {
      for (const PortPlan& port : plan_->node(rank, caffe::TRAIN).ports()) {
        if (!port.landing) sent += port.row_bytes * plan_->schedule().SamplesOfId(id).rows;
      }
    }
    EXPECT_EQ(result.nodes[rank].sent_bytes, result.clocks * sent) << rank;
    EXPECT_EQ(result.links[rank].out_bytes, result.clocks * sent) << rank;
  }
}

TEST_F(PlannedJobTest, NodesComputeAsLongAsTheirLayersTake) {
  const SimulationResult result = Simulated(SimulatedJobOf(*plan_, hosts_, places_, 10));
  const std::vector<LayerCost> costs = CostsOf(plan_->graph(caffe::TRAIN), plan_->shapes(caffe::TRAIN));
  for (Rank rank = 0; rank < table_.size(); ++rank) {
    const LayerTimes layers(costs, hosts_.places[rank].speed);
    const NodeTimes node(plan_->node(rank, caffe::TRAIN), layers);
    double seconds = 0;
    for (const int layer : plan_->node(rank, caffe::TRAIN).learning_layers()) seconds += node.Update(layer);
    for (const MsgId id : plan_->schedule().TrainIds(0, plan_->ShareOf(rank))) {
      const auto rows = static_cast<double>(plan_->schedule().SamplesOfId(id).rows);
      for (int segment = 0; segment < plan_->node(rank, caffe::TRAIN).segments(); ++segment) {
        seconds += node.Forward(segment, rows) + node.Backward(segment, rows);
      }
      for (const int layer : plan_->node(rank, caffe::TRAIN).learning_layers())
        seconds += node.WeightGradient(layer, rows);
    }
    EXPECT_NEAR(static_cast<double>(result.nodes[rank].busy_ns()) / 1e9 / static_cast<double>(result.clocks), seconds,
                1e-7)
        << rank;
  }
}

TEST_F(PlannedJobTest, NodesOfOneHostShareItsSpeedAndItsLink) {
  const double apart = Simulated(SimulatedJobOf(*plan_, hosts_, places_, 10)).ms_per_iteration();
  places_ = {0, 0, 0, 0};
  const SimulationResult result = Simulated(SimulatedJobOf(*plan_, hosts_, places_, 10));
  EXPECT_GT(result.ms_per_iteration(), 2 * apart);
  EXPECT_EQ(result.links[0].out_bytes, 0);
}

TEST_F(PlannedJobTest, ANodeMustBeOnOneOfTheHosts) {
  const StatusOr<std::vector<int>> places = PlacesOfNodes(table_, hosts_);
  ASSERT_FALSE(places.ok());
  EXPECT_THAT(places.status().message(), HasSubstr("which is not among the hosts"));
  for (int rank = 0; rank < table_.size(); ++rank) hosts_.hosts[rank].name = table_.node(rank).host;
  EXPECT_TRUE(PlacesOfNodes(table_, hosts_).ok());
}

TEST_F(PlannedJobTest, TheReportSaysWhereTheTimeGoes) {
  const SimulatedJob job = SimulatedJobOf(*plan_, hosts_, places_, 10);
  const std::string text = DescribeSimulation(job, Simulated(job));
  EXPECT_THAT(text, HasSubstr("images/s"));
  EXPECT_THAT(text, HasSubstr("bottleneck: the executor of"));
  EXPECT_THAT(text, HasSubstr("waits for"));
  EXPECT_THAT(text, HasSubstr("receives"));
}

}  // namespace
}  // namespace hp
