// The pipelines of whole jobs, without nets: what is promised in scheduler/README.md holds in any order of events.
#include "scheduler/pipeline/pipeline.h"

#include "test/unit/scheduler/hand_driven.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hp::test {
namespace {

std::vector<JobSpec> AllJobs() {
  std::vector<JobSpec> jobs;
  for (int replicas : {1, 3}) jobs.push_back(NoFcStage(replicas));
  for (bool frozen : {false, true}) {
    jobs.push_back(OneFcStage(1, 1, frozen));
    jobs.push_back(OneFcStage(3, 1, frozen));
    jobs.push_back(OneFcStage(2, 3, frozen));
    jobs.push_back(TwoFcStages(2, 2, 3, frozen, false));
    jobs.push_back(TwoFcStages(3, 2, 2, frozen, true));
  }
  jobs.push_back(ThereAndBack(2, 1, 2));
  jobs.push_back(ThereAndBack(3, 3, 1));
  for (const int behind : {1, 2}) {
    jobs.push_back(ThereAndBack(2, behind, 2));
    jobs.back().name += " sharing";
    jobs.back().shares = true;
  }
  jobs.push_back(Served(jobs.back(), 2));
  jobs.push_back(Served(NoFcStage(3), 2));
  jobs.push_back(Served(OneFcStage(2, 2, false), 1));
  jobs.push_back(Served(ThereAndBack(2, 2, 1), 2));
  for (JobSpec& job : jobs) job.shape = UnevenShape(job.stages[0].parts, 2, 4);
  return jobs;
}

/// Writes of a whole job: every port of every id, once.
int ExpectedWrites(const JobSpec& job) {
  int writes = 0;
  for (Rank rank = 0; rank < job.nodes(); ++rank) {
    const PipelinePlan plan = job.PlanOf(rank);
    const Schedule schedule(job.shape);
    auto landings = [](const PhasePlan& phase) {
      return std::count_if(phase.ports.begin(), phase.ports.end(), [](const PortPlan& port) { return port.landing; });
    };
    for (int64_t clock = 0; clock <= job.last_clock(); ++clock) {
      writes += static_cast<int>(schedule.TestIds(clock, plan.share).size() * landings(plan.phases[1][0]));
      writes += static_cast<int>(schedule.TrainIds(clock, plan.share).size() * landings(plan.phases[0][0]));
    }
  }
  return writes;
}

class AnyOrder : public testing::TestWithParam<int> {};

TEST_P(AnyOrder, EveryJobEndsAndKeepsItsPromises) {
  int shared_updates = 0, early_exchanges = 0;
  std::vector<JobSpec> jobs = AllJobs();
  jobs.push_back(ThereAndBack(2, 4, 3));  // which have one micro-batch each
  jobs.back().shape = UnevenShape(2, 2, 4);
  for (JobSpec job : jobs) {
    job.pool_size = GetParam();
    for (bool wait : {false, true}) {
      job.wait_for_verdict = wait;
      for (unsigned seed = 1; seed <= 3; ++seed) {
        job.updates_together = seed % 2 == 0;
        HandDriven world(job, seed);
        const std::vector<std::string> faults = world.Run();
        ASSERT_TRUE(faults.empty()) << job.name << ", wait " << wait << ", seed " << seed << "\n" << Lines(faults);
        ASSERT_EQ(world.writes(), ExpectedWrites(job)) << job.name;
        shared_updates += world.shared_updates();
        early_exchanges += world.early_exchanges();
      }
    }
  }
  EXPECT_GT(shared_updates, 0);
  EXPECT_GT(early_exchanges, 0);
}

TEST_P(AnyOrder, UrgentTasksGoInBetweenTheLayersOfOthers) {
  int interrupts = 0;
  for (JobSpec job : AllJobs()) {
    job.pool_size = GetParam();
    job.urgent = true;
    for (const int staleness : {0, 2}) {
      job.staleness = staleness;
      for (unsigned seed = 1; seed <= 3; ++seed) {
        HandDriven world(job, seed);
        const std::vector<std::string> faults = world.Run();
        ASSERT_TRUE(faults.empty()) << job.name << ", staleness " << staleness << ", seed " << seed << "\n"
                                    << Lines(faults);
        ASSERT_EQ(world.writes(), ExpectedWrites(job)) << job.name;
        interrupts += world.interrupts();
      }
    }
  }
  EXPECT_EQ(interrupts > 0, GetParam() > 1) << "two ids under way at once";
}

// As on GPUs: whatever the order in which tasks are done and events come, nothing that leaves a node or that the host
// reads is of a task that is only enqueued, and nothing overwrites what such a task reads.
TEST_P(AnyOrder, TasksBehindEnqueuedOnesKeepTheirPromises) {
  std::map<Task::Kind, int> followers;
  for (JobSpec job : AllJobs()) {
    job.pool_size = GetParam();
    job.enqueues = true;
    for (const bool wait : {false, true}) {
      job.wait_for_verdict = wait;
      for (unsigned seed = 1; seed <= 4; ++seed) {
        job.updates_together = seed % 2 == 0;
        job.staleness = seed == 4 ? 1 : 0;
        HandDriven world(job, seed);
        const std::vector<std::string> faults = world.Run();
        ASSERT_TRUE(faults.empty()) << job.name << ", wait " << wait << ", seed " << seed << "\n" << Lines(faults);
        ASSERT_EQ(world.writes(), ExpectedWrites(job)) << job.name;
        for (const auto& [kind, count] : world.followers()) followers[kind] += count;
      }
    }
  }
  for (const Task::Kind kind : {Task::kBoundary, Task::kBackward, Task::kForward, Task::kWeightGradient, Task::kNorm,
                                Task::kUpdate, Task::kFinishClock}) {
    EXPECT_GT(followers[kind], 0) << NameOf(kind);
  }
}

// Of an iteration without a test in front of it the version is an older one, whatever the pools.
TEST_P(AnyOrder, ClocksAheadOfTheirVersionKeepTheirPromises) {
  for (JobSpec job : AllJobs()) {
    job.pool_size = GetParam();
    job.shape.test_interval = 4;
    job.shape.max_iter = 7;
    for (int staleness : {1, 3}) {
      job.staleness = staleness;
      for (bool wait : {false, true}) {
        job.wait_for_verdict = wait;
        for (unsigned seed = 1; seed <= 2; ++seed) {
          job.late_tests = seed % 2 == 0;
          HandDriven world(job, seed);
          const std::vector<std::string> faults = world.Run();
          ASSERT_TRUE(faults.empty()) << job.name << ", staleness " << staleness << ", wait " << wait << ", seed "
                                      << seed << "\n"
                                      << Lines(faults);
          ASSERT_EQ(world.writes(), ExpectedWrites(job)) << job.name;
        }
      }
    }
  }
}

#ifdef HP_SANITIZED
const auto kPools = testing::Values(2);  // minutes each; the orders are those of a plain build, whose pools are more
#else
const auto kPools = testing::Values(1, 2, 50);
#endif
INSTANTIATE_TEST_SUITE_P(Pools, AnyOrder, kPools, testing::PrintToStringParamName());

// With few ids a training micro-batch often overtakes a test; the update may not.
TEST(PipelineOrders, AnUpdateWaitsForTheTestsOfItsClock) {
  for (JobSpec job : AllJobs()) {
    job.shape.micro_batches = job.shape.iter_size = job.shape.test_interval = 1;
    job.shape.train_batch = job.shape.replicas;
    job.shape.tests = {{1, job.shape.replicas}};
    job.pool_size = 10;
    for (unsigned seed = 1; seed <= 12; ++seed) {
      HandDriven world(job, seed);
      const std::vector<std::string> faults = world.Run();
      ASSERT_TRUE(faults.empty()) << job.name << ", seed " << seed << "\n" << Lines(faults);
    }
  }
}

TEST(PipelineOrders, AVerdictStopsAllNodesAtTheSameClock) {
  for (JobSpec job : AllJobs()) {
    job.stop_after = 2;  // a test would stand at 4
    job.shape.max_iter = 9;
    for (unsigned seed = 1; seed <= 6; ++seed) {
      job.staleness = seed == 3 || seed == 4 ? 1 : 0;
      job.enqueues = seed > 4;
      HandDriven world(job, seed);
      const std::vector<std::string> faults = world.Run();
      ASSERT_TRUE(faults.empty()) << job.name << ", seed " << seed << "\n" << Lines(faults);
    }
  }
}

/// Does what the pipeline of a node without ports says, until there is nothing more to do. @return the updated groups.
std::vector<int> RunAll(CheckedNode* node, Pipeline* pipeline) {
  std::vector<int> updated;
  while (const std::optional<Task> task = pipeline->TryNextTask()) {
    node->Run(*task);
    if (task->kind == Task::kUpdate) updated.push_back(task->group);
    pipeline->Done(*task);
  }
  return updated;
}

/// Whatever else is still under way, of the same stage or of another.
TEST(PipelineExchange, MakesItsOwnUnitReadyAndNoOther) {
  for (bool wait : {false, true}) {
    JobSpec job = NoFcStage(2);
    job.shape = UnevenShape(2, 2, 4);
    job.shape.tests.clear();
    job.wait_for_verdict = wait;
    CheckedNode node(job, 0);
    PipelinePlan plan = node.plan();
    plan.groups[1].stage = 3;
    while (node.TakeInput()) {
    }
    Pipeline pipeline(plan, node.schedule(), &node, nullptr);
    pipeline.Start();
    EXPECT_TRUE(RunAll(&node, &pipeline).empty());
    node.OnExchanged(0, 1);
    pipeline.OnExchanged(0, 3, 1);
    EXPECT_EQ(RunAll(&node, &pipeline), wait ? std::vector<int>{} : std::vector<int>{1});
    node.OnExchanged(0, 0);
    pipeline.OnExchanged(0, 0, 0);
    EXPECT_EQ(RunAll(&node, &pipeline), wait ? std::vector<int>{} : std::vector<int>{0});
    node.OnVerdict(0);
    pipeline.OnVerdict(0, std::nullopt);
    EXPECT_EQ(RunAll(&node, &pipeline), wait ? (std::vector<int>{0, 1}) : std::vector<int>{});
  }
}

TEST(PipelineInputs, OnlyTimeWithoutWorkForWantOfRecordsIsCounted) {
  JobSpec job = NoFcStage(1);
  job.shape = UnevenShape(1, 2, 4);
  job.pool_size = 2;
  CheckedNode node(job, 0);
  FakeClock clock;
  Pipeline pipeline(node.plan(), node.schedule(), &node, nullptr, &clock);
  pipeline.Start();
  const auto run = [&](const std::optional<Task>& task) {
    ASSERT_TRUE(task);
    node.Run(*task);
    pipeline.Done(*task);
  };
  run(pipeline.TryNextTask());  // the boundary; then nothing is there to compute
  EXPECT_FALSE(pipeline.TryNextTask());
  clock.Advance(5000);
  EXPECT_FALSE(pipeline.TryNextTask());
  clock.Advance(2000);
  ASSERT_TRUE(node.TakeInput());
  pipeline.OnInputs();
  const std::optional<Task> first = pipeline.TryNextTask();
  EXPECT_EQ(pipeline.time_use().waiting(Wait::kInput), 7000);
  clock.Advance(100);  // the second micro-batch lacks its records, but the executor computes
  run(first);
  while (const std::optional<Task> task = pipeline.TryNextTask()) run(task);
  EXPECT_EQ(pipeline.time_use().waiting(Wait::kInput), 7000);
  EXPECT_EQ(pipeline.time_use().computing_ns, 100);
}

TEST(PipelineOrders, WorkGoesByKindThenIdThenLaterSegment) {
  const MsgId first = MsgId::Make(3, true, 0, 0), second = MsgId::Make(3, true, 0, 1);
  const std::vector<Task> order = {
      {.kind = Task::kBoundary, .clock = 3},
      {.kind = Task::kBackward, .id = first, .segment = 1},
      {.kind = Task::kBackward, .id = first, .segment = 0},
      {.kind = Task::kBackward, .id = second, .segment = 2},
      {.kind = Task::kForward, .id = MsgId::Make(3, false, 7, 0), .segment = 0},
      {.kind = Task::kForward, .id = first, .segment = 2},
      {.kind = Task::kForward, .id = second, .segment = 2},
      {.kind = Task::kWeightGradient, .id = first, .segment = 2, .group = 1},
      {.kind = Task::kWeightGradient, .id = first, .segment = 0, .group = 0},
      {.kind = Task::kWeightGradient, .id = second, .segment = 2, .group = 1},
      {.kind = Task::kUpdate, .segment = 0, .group = 0},
  };
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j < order.size(); ++j) EXPECT_EQ(GoesBefore(order[i], order[j]), i < j) << i << " " << j;
  }
}

}  // namespace
}  // namespace hp::test
