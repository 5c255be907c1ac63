// Jobs whose times follow from a line of arithmetic, run by the real pipelines on simulated time.
#include "scheduler/simulator/simulation.h"

#include "scheduler/simulator/simulation_trace.h"
#include "test/unit/simulator/made_up_job.h"

#include <gtest/gtest.h>

namespace hp::test {
namespace {

constexpr int64_t kMs = 1'000'000;

EvenTimes Times(int64_t forward_ms, int64_t backward_ms, int64_t weights_ms = 0, int64_t update_ms = 0) {
  EvenTimes times;
  times.forward_ns = forward_ms * kMs;
  times.backward_ns = backward_ms * kMs;
  times.weights_ns = weights_ms * kMs;
  times.update_ns = update_ms * kMs;
  return times;
}

SimulationResult Simulated(const SimulatedJob& job, const TaskTimes& times, const SimulationOptions& options = {}) {
  StatusOr<SimulationResult> result = Simulate(job, times, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  SimulationResult none;
  none.clocks = none.ns = 1;
  return result.ok() ? *std::move(result) : none;
}

int64_t Waited(const SimulationResult& result, Rank rank, Wait wait) { return result.nodes[rank].time.waiting(wait); }

TEST(Simulation, OneNodeTakesTheSumOfItsTasks) {
  SimulatedJob job = DataParallel(1, 0, 1e9, 10);
  job.shape.micro_batches = 3;
  job.shape.train_batch = 12;
  const SimulationResult result = Simulated(job, Times(5, 7, 0, 2));
  EXPECT_EQ(result.clocks, 8);
  EXPECT_EQ(result.ns, 8 * (3 * (5 + 7) + 2) * kMs);
  EXPECT_EQ(result.samples, 12);
  EXPECT_DOUBLE_EQ(result.ms_per_iteration(), 38);
  EXPECT_DOUBLE_EQ(result.samples_per_s(), 12 / 0.038);
  EXPECT_EQ(result.nodes[0].forward_ns, 8 * 15 * kMs);
  EXPECT_EQ(result.nodes[0].backward_ns, 8 * 21 * kMs);
  EXPECT_EQ(result.nodes[0].update_ns, 8 * 2 * kMs);
  for (const int64_t ns : result.nodes[0].time.waiting_ns) EXPECT_EQ(ns, 0);
}

/// Stages of replicas behind each other, one node each, over links that take no time: a plain pipeline. Only forward
/// passes where `gradients` is false.
SimulatedJob Chain(int stages, int micro_batches, int pool, bool gradients, int64_t row_bytes = 0,
                   double bytes_per_s = 1e18) {
  JobSpec spec;
  for (int stage = 0; stage < stages; ++stage) {
    spec.stages.push_back({true, 1, {}});
    if (gradients) spec.stages.back().groups = {{.in_backward = true}};
    if (stage > 0) spec.edges.push_back({.from = stage - 1, .to = stage, .gradient = gradients});
  }
  spec.shape = TrainingShape(1, micro_batches, 6);
  spec.pool_size = pool;
  return SimulatedJobOf(spec, bytes_per_s, row_bytes);
}

TEST(Simulation, APipelineOfStagesFillsInStagesLessOneSteps) {
  // Nothing learns, so clocks follow each other without a pause, and each node is busy all the time.
  EXPECT_EQ(Simulated(Chain(3, 8, 8, false), Times(10, 0)).ns, 4 * 8 * 10 * kMs);
  // Each clock ends with its update, for which all nodes wait: filling, the micro-batches, emptying.
  SimulatedJob job = Chain(3, 8, 8, true);
  for (auto& node : job.nodes) node.plan.wait_for_verdict = true;
  const SimulationResult result = Simulated(job, Times(10, 10));
  EXPECT_EQ(result.ns, 4 * (8 + 3 - 1) * 2 * 10 * kMs);
  EXPECT_EQ(result.nodes[2].busy_ns(), 4 * 8 * 2 * 10 * kMs);
}

TEST(Simulation, APoolOfOneLeavesTheOtherStageIdle) {
  // One micro-batch at a time: through both nodes and back.
  const SimulationResult one = Simulated(Chain(2, 6, 1, true), Times(10, 10));
  EXPECT_EQ(one.ns, 4 * 6 * 40 * kMs);
  EXPECT_EQ(one.nodes[0].most_solvers, 1);
  EXPECT_EQ(one.nodes[0].solver_ns, one.ns);
  // Two: one of them on each node. The last node goes forward and back, the first is idle only at both ends.
  const SimulationResult two = Simulated(Chain(2, 6, 2, true), Times(10, 10));
  EXPECT_LT(two.ns, 4 * (6 * 20 + 2 * 20) * kMs + kMs);
  EXPECT_EQ(two.nodes[0].most_solvers, 2);
}

TEST(Simulation, ALinkBoundJobTakesItsBytesOverTheBandwidth) {
  // 10 MB for each of 8 micro-batches at 1 GB/s: 80 ms each way, which do not disturb each other.
  const SimulationResult result = Simulated(Chain(2, 8, 8, true, 10'000'000, 1e9), Times(0, 0));
  const double clock_ns = static_cast<double>(result.ns) / 4;
  EXPECT_NEAR(clock_ns, 90e6, 1e6);  // the gradients of one are on their way while the next one arrives
  EXPECT_EQ(result.links[0].out_bytes, 4 * 80'000'000);
  EXPECT_EQ(result.links[0].in_bytes, 4 * 80'000'000);
  EXPECT_EQ(result.nodes[0].sent_bytes, result.nodes[1].received_bytes);
  EXPECT_GT(Waited(result, 1, Wait::kActivations), 200 * kMs);
}

TEST(Simulation, ARingMovesTwiceTheBytesButAReplicasPart) {
  for (const int replicas : {2, 4, 8}) {
    const SimulatedJob job = DataParallel(replicas, 80'000'000, 1e9, 10);
    const SimulationResult result = Simulated(job, Times(3, 4, 0, 1));
    const int64_t ring_ns = 2 * (replicas - 1) * 80'000'000 / replicas;
    EXPECT_NEAR(static_cast<double>(result.ns) / 8, static_cast<double>(8 * kMs + ring_ns), 1e4) << replicas;
    EXPECT_EQ(result.nodes[0].sent_bytes, 8 * ring_ns);
    EXPECT_NEAR(static_cast<double>(Waited(result, 0, Wait::kExchange)), 8.0 * static_cast<double>(ring_ns), 1e5);
  }
}

TEST(Simulation, ARingOfSmallBlocksTakesItsLatencies) {
  SimulatedJob job = DataParallel(8, 800, 1e9, 10);
  for (SimulatedHost& host : job.hosts) host.latency_ns = 50'000;
  // 14 steps of a latency and a block of 100 bytes; the verdict of the clock before the last is there by then.
  EXPECT_EQ(Simulated(job, Times(3, 4)).ns, 8 * (7 * kMs + 14 * (50'000 + 100)));
}

TEST(Simulation, HostsThatSumFirstGoRoundByOneReplica) {
  SimulatedJob job = DataParallel(4, 80'000'000, 1e9, 10);
  job.nodes[1].host = 0;
  job.nodes[3].host = 2;
  job.exchanges[0].on_links = {0, 2};
  const SimulationResult shared = Simulated(job, Times(0, 0));
  EXPECT_EQ(shared.ns, Simulated(DataParallel(2, 80'000'000, 1e9, 10), Times(0, 0)).ns);
  EXPECT_EQ(shared.nodes[0].sent_bytes, 8 * 80'000'000);
}

TEST(Simulation, TwoNodesOfOneHostShareItsLink) {
  SimulatedJob job = DataParallel(4, 80'000'000, 1e9, 10);
  const double apart = static_cast<double>(Simulated(job, Times(0, 0)).ns);
  job.nodes[2].host = 0;  // ring 0 - 1 - 2 - 3: both nodes of host 0 send to others
  const double shared = static_cast<double>(Simulated(job, Times(0, 0)).ns);
  EXPECT_NEAR(shared / apart, 2, 0.01);
}

/// Half of a task, the gradient is final.
struct HalfwayTimes : public EvenTimes {
  int64_t GradientNs(Rank rank, const Task& task, int) const override { return NsOf(rank, task) / 2; }
};

TEST(Simulation, AnExchangeOverlapsTheRestOfTheBackwardPass) {
  HalfwayTimes times;
  times.backward_ns = 100 * kMs;
  EXPECT_NEAR(static_cast<double>(Simulated(DataParallel(2, 30'000'000, 1e9, 10), times).ns), 8 * 100e6, 1e4);
  EXPECT_NEAR(static_cast<double>(Simulated(DataParallel(2, 80'000'000, 1e9, 10), times).ns), 8 * 130e6, 1e4);
}

TEST(Simulation, NobodyIsTwoClocksAheadOfTheVerdict) {
  // A node without work of its own waits for the verdict of the clock before the last, a round trip after its report.
  SimulatedJob job = DataParallel(1, 0, 1e9, 10);
  job.nodes.push_back(job.nodes[0]);
  job.nodes[1].host = 1;
  job.hosts.push_back(job.hosts[0]);
  job.hosts[0].latency_ns = 10 * kMs;
  const SimulationResult result = Simulated(job, Times(0, 0));
  EXPECT_NEAR(static_cast<double>(result.ns) / 8, 10e6, 1);  // 20 ms for two clocks
  EXPECT_EQ(Waited(result, 1, Wait::kVerdict), result.nodes[1].ns);
}

TEST(Simulation, ATensorThatWaitsForItsPlaceIsTheGrantsFault) {
  // The second node's pool is one, and it takes long: what the first has made waits.
  SimulatedJob job = Chain(3, 6, 4, false);
  job.nodes[1].plan.pool_size = 1;
  struct SlowLast : public EvenTimes {
    int64_t NsOf(Rank rank, const Task& task) const override {
      return task.kind == Task::kForward ? (rank == 2 ? 1 : 10) * kMs : 0;
    }
  } times;
  SimulatedJob tight = job;
  tight.hosts[1].latency_ns = 5 * kMs;
  const SimulationResult result = Simulated(tight, times);
  EXPECT_GT(Waited(result, 0, Wait::kGrants), 0);
  EXPECT_LT(Waited(Simulated(job, times), 0, Wait::kGrants), Waited(result, 0, Wait::kGrants) / 2);
}

TEST(Simulation, JobsOfAllKindsEndAndAreTheSameTwice) {
  for (JobSpec spec :
       {OneFcStage(3, 2, false), TwoFcStages(2, 2, 3, false, true), ThereAndBack(2, 4, 3), OneFcStage(2, 1, true)}) {
    for (const int pool : {1, 2, 20}) {
      spec.pool_size = pool;
      spec.wait_for_verdict = pool == 2;
      spec.shape = UnevenShape(spec.stages[0].parts, 3, 6);
      SimulatedJob job = SimulatedJobOf(spec, 1e9, 300'000);
      for (int stage = 0; stage < static_cast<int>(spec.stages.size()); ++stage) {
        if (!spec.stages[stage].conv || spec.stages[stage].parts < 2 || spec.stages[stage].groups.empty()) continue;
        job.exchanges.push_back({.stage = stage,
                                 .ranks = spec.ranks_of(stage),
                                 .collectives = {{4'000'000, 500'000}},
                                 .groups = std::vector<std::vector<int>>(spec.stages[stage].parts, {1, 0}),
                                 .collectives_of = {{0}, {0}}});
      }
      const SimulationResult first = Simulated(job, Times(2, 3, 1, 1)), second = Simulated(job, Times(2, 3, 1, 1));
      EXPECT_EQ(first.ns, second.ns) << spec.name;
      EXPECT_EQ(first.events, second.events) << spec.name;
      EXPECT_GT(first.ns, 4 * 5 * kMs) << spec.name;
      int64_t sent = 0;
      for (const SimulatedUse& node : first.nodes) {
        sent += node.sent_bytes - node.received_bytes;
        int64_t ns = node.busy_ns();
        for (const int64_t wait_ns : node.time.waiting_ns) ns += wait_ns;
        EXPECT_EQ(ns, node.ns) << spec.name << ": it computes or waits";
      }
      EXPECT_EQ(sent, 0) << spec.name;
    }
  }
}

// 992 replicas and 8 shards, whose slices of each micro-batch are gathered twice: the ctest limit of this program is
// what a thousand nodes may take. (scheduler/README.md has the measured time.)
TEST(Simulation, AThousandNodes) {
  JobSpec spec = OneFcStage(992, 8, false);
  spec.shape = TrainingShape(992, 1, 4, 32);
  spec.pool_size = 1984;
  SimulatedJob job = SimulatedJobOf(spec, 1e9, 8192);
  SimulatedExchange exchange{.stage = 0, .ranks = spec.ranks_of(0), .collectives = {{8'000'000, 256 << 10}}};
  exchange.groups.assign(992, {1, 0});
  exchange.collectives_of = {{0}, {0}};
  job.exchanges.push_back(exchange);
  const SimulationResult result = Simulated(job, Times(10, 20));
  // Each id's tensor goes to all shards and back, and theirs to each other, of one layer also back.
  EXPECT_EQ(result.messages, 4 * 992 * (2 * 8 + 2 * 8 * 7 + 2 * 7));
  // The lead computes all the time, the other shards two segments of three.
  EXPECT_EQ(result.nodes[999].busy_ns(), 2 * 992 * 2 * 30 * kMs);
  EXPECT_GT(result.nodes[992].busy_ns(), result.ns * 99 / 100);
}

TEST(Simulation, AJobThatCannotEndIsReported) {
  SimulatedJob job = DataParallel(2, 80'000'000, 1e9, 10);
  job.exchanges.clear();  // nobody sums what the pipelines wait for
  const StatusOr<SimulationResult> result = Simulate(job, Times(1, 1));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("node \"node0\" waits"), std::string::npos) << result.status().message();
  EXPECT_FALSE(Simulate(DataParallel(1, 0, 0, 10), Times(1, 1)).ok());
  EXPECT_FALSE(Simulate(DataParallel(1, 0, 1e9, 2), Times(1, 1)).ok());
}

TEST(Simulation, ATraceHasWhatNodesComputeAndSend) {
  SimulationTrace trace;
  SimulationOptions options;
  options.trace = &trace;
  Simulated(Chain(2, 2, 2, true, 1'000'000, 1e9), Times(1, 2), options);
  const std::string json = trace.Json({"conv \"0\"", "conv1"});
  EXPECT_NE(json.find("\"name\":\"forward segment 0 id 3:1.0\""), std::string::npos);
  EXPECT_NE(json.find("\"ts\":0.000,\"dur\":1000.000,\"name\":\"forward segment 0 id 0:0.0\""), std::string::npos);
  EXPECT_NE(json.find("\"pid\":0,\"tid\":2"), std::string::npos);
  EXPECT_NE(json.find("\"pid\":1,\"tid\":3"), std::string::npos);
  EXPECT_NE(json.find("conv \\\"0\\\""), std::string::npos);
}

}  // namespace
}  // namespace hp::test
