// On a device that queues its work: which tasks follow one that is enqueued and not done, and what waits until it is.
#include "test/unit/scheduler/pipeline_job.h"
#include "transport/partial_transport.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

/// A node whose inputs are all there, and what its pipeline has told it and its transport.
class Node : public PipelineHost, public PartialTransport {
 public:
  explicit Node(const PipelinePlan& plan, const JobShape& shape) : pipeline_(plan, Schedule(shape), this, this) {
    pipeline_.Start();
  }

  std::span<std::byte> Place(int, MsgId, int) override { return place_; }
  bool InputsReady(MsgId, int) override { return true; }
  bool BoundaryNeedsDone(int64_t clock) override { return needs_done_.contains(clock); }
  void Freed(int, MsgId) override { ++freed_; }
  Status Grant(Rank, const PlaceTag&, std::span<std::byte>) override {
    ++grants_;
    return OkStatus();
  }
  Status Write(Rank, const PlaceTag&, RemoteGrant, std::span<const std::byte>) override {
    ++writes_;
    return OkStatus();
  }

  /// The next task, which must be of this kind. Boundaries are done at once, as the executor does them.
  Task Take(Task::Kind kind) {
    const std::optional<Task> task = pipeline_.TryNextTask();
    EXPECT_TRUE(task) << "nothing is ready; expected: " << NameOf(kind);
    if (!task) return {};
    EXPECT_EQ(task->kind, kind) << Describe(*task);
    if (kind == Task::kBoundary) pipeline_.Done(*task);
    return *task;
  }
  /// The same, and it is enqueued.
  Task Enqueue(Task::Kind kind) {
    const Task task = Take(kind);
    if (kind != Task::kBoundary) pipeline_.Enqueued(task);
    return task;
  }
  void Done(const Task& task) { pipeline_.Done(task); }
  bool nothing_ready() { return pipeline_.load().tasks_ready == 0; }

  std::array<std::byte, 8> place_ = {};
  std::set<int64_t> needs_done_;
  int freed_ = 0, grants_ = 0, writes_ = 0;
  Pipeline pipeline_;
};

/// One node with all layers.
PipelinePlan Alone(std::vector<ParamGroupPlan> groups) {
  JobSpec job = NoFcStage(1);
  job.stages[0].groups = std::move(groups);
  return job.PlanOf(0);
}

JobShape OneMicroBatch(int64_t max_iter = 9) {
  JobShape shape = UnevenShape(1, 1, max_iter);
  shape.iter_size = 1;
  shape.tests.clear();
  return shape;
}

const ParamGroupPlan kLow{.segment = 0, .in_backward = true}, kHigh{.segment = 1, .in_backward = true};

TEST(EnqueuedTasks, AWholeIterationAndTheNextForwardPassFollow) {
  Node node(Alone({kLow, kHigh}), OneMicroBatch());
  node.Enqueue(Task::kBoundary);
  const Task first = node.Take(Task::kForward);
  EXPECT_TRUE(node.nothing_ready()) << "handed out is not enqueued";
  node.pipeline_.Enqueued(first);
  EXPECT_EQ(node.Enqueue(Task::kForward).segment, 1);
  EXPECT_EQ(node.Enqueue(Task::kBackward).segment, 1);
  EXPECT_EQ(node.Enqueue(Task::kBackward).segment, 0);
  node.Enqueue(Task::kUpdate);
  node.Enqueue(Task::kUpdate);
  node.Enqueue(Task::kFinishClock);
  EXPECT_EQ(node.Enqueue(Task::kBoundary).clock, 1);
  const Task next = node.Enqueue(Task::kForward);
  EXPECT_EQ(next.clock, 1);
  EXPECT_EQ(next.version, 1) << "of the parameters";
  EXPECT_EQ(next.solver, first.solver);
  EXPECT_EQ(node.freed_, 0);
  EXPECT_EQ(node.pipeline_.clocks_done(), 0);
}

TEST(EnqueuedTasks, NoClockBeginsBeforeTheVerdictOnTheOneBeforeTheLast) {
  Node node(Alone({kLow}), OneMicroBatch());
  std::vector<Task> tasks;
  for (int clock = 0; clock < 2; ++clock) {
    node.Enqueue(Task::kBoundary);
    for (const auto kind : {Task::kForward, Task::kBackward, Task::kUpdate, Task::kFinishClock}) {
      tasks.push_back(node.Enqueue(kind));
    }
  }
  EXPECT_TRUE(node.nothing_ready());
  for (size_t i = 0; i < 3; ++i) node.Done(tasks[i]);
  EXPECT_EQ(node.freed_, 1);
  EXPECT_TRUE(node.nothing_ready());
  node.pipeline_.OnVerdict(0, std::nullopt);
  EXPECT_EQ(node.Take(Task::kBoundary).clock, 2);
  EXPECT_EQ(node.pipeline_.clocks_done(), 0) << "its end is not done";
  node.Done(tasks[3]);
  EXPECT_EQ(node.pipeline_.clocks_done(), 1);
}

TEST(EnqueuedTasks, TheNextMicroBatchTakesTheSolver) {
  JobShape shape = OneMicroBatch();
  shape.micro_batches = 2;
  shape.train_batch = 2;
  Node node(Alone({kLow}), shape);
  node.Enqueue(Task::kBoundary);
  const Task first = node.Enqueue(Task::kForward);
  EXPECT_TRUE(node.pipeline_.load().solvers_free == 0);
  const Task back = node.Enqueue(Task::kBackward);
  const Task second = node.Enqueue(Task::kForward);
  EXPECT_LT(first.id, second.id);
  EXPECT_EQ(first.solver, second.solver);
  EXPECT_EQ(node.freed_, 0) << "its images are still read";
  node.Done(first);
  EXPECT_EQ(node.freed_, 0);
  node.Done(back);
  EXPECT_EQ(node.freed_, 1);
  EXPECT_EQ(node.pipeline_.load().solvers_free, 0) << "the second has it";
}

TEST(EnqueuedTasks, ASolverThatNobodyUsesGoesBeforeOneWhoseTasksAreEnqueued) {
  PipelinePlan plan = Alone({kLow});
  plan.pool_size = 2;
  Node node(plan, OneMicroBatch());
  node.Enqueue(Task::kBoundary);
  const Task first = node.Enqueue(Task::kForward);
  std::vector<Task> tasks = {first};
  for (const auto kind : {Task::kBackward, Task::kUpdate, Task::kFinishClock}) tasks.push_back(node.Enqueue(kind));
  node.Enqueue(Task::kBoundary);
  const Task second = node.Enqueue(Task::kForward);
  EXPECT_NE(second.solver, first.solver);
  for (const Task& task : tasks) node.Done(task);
  EXPECT_EQ(node.pipeline_.load().solvers_free, 1);
  EXPECT_EQ(node.pipeline_.load().solvers_bound, 1);
}

TEST(EnqueuedTasks, WeightGradientsFollow) {
  Node node(Alone({{.segment = 0}, {.segment = 0, .deferred = true}}), OneMicroBatch());
  node.Enqueue(Task::kBoundary);
  node.Enqueue(Task::kForward);
  node.Enqueue(Task::kBackward);
  EXPECT_EQ(node.Enqueue(Task::kWeightGradient).group, 0);
  EXPECT_EQ(node.Enqueue(Task::kUpdate).group, 0);
  EXPECT_EQ(node.Enqueue(Task::kUpdate).group, 1) << "which computes the deferred gradient itself";
  node.Enqueue(Task::kFinishClock);
}

TEST(EnqueuedTasks, DeferredGradientAndNormFollowAndTheUpdateWaitsForTheVerdict) {
  PipelinePlan plan = Alone({{.segment = 0, .deferred = true}});
  plan.wait_for_verdict = true;
  Node node(plan, OneMicroBatch());
  node.Enqueue(Task::kBoundary);
  std::vector<Task> tasks;
  for (const auto kind : {Task::kForward, Task::kBackward, Task::kWeightGradient, Task::kNorm}) {
    tasks.push_back(node.Enqueue(kind));
  }
  EXPECT_TRUE(node.nothing_ready());
  node.pipeline_.OnVerdict(0,
                           std::nullopt);  // no other node's verdict can be there, but the pipeline does not lean on it
  EXPECT_TRUE(node.nothing_ready()) << "the norm is not done";
  for (const Task& task : tasks) node.Done(task);
  node.Enqueue(Task::kUpdate);
  node.Enqueue(Task::kFinishClock);
  node.Enqueue(Task::kBoundary);
}

TEST(EnqueuedTasks, AnUpdateWaitsForTheExchange) {
  JobSpec job = NoFcStage(2);
  job.stages[0].groups = {kLow};
  Node node(job.PlanOf(0), [] {
    JobShape shape = UnevenShape(2, 1, 9);
    shape.iter_size = 1;
    shape.train_batch = 2;
    shape.tests.clear();
    return shape;
  }());
  node.Enqueue(Task::kBoundary);
  node.Enqueue(Task::kForward);
  const Task back = node.Take(Task::kBackward);
  node.pipeline_.OnExchanged(0, 0, 0);  // within the task that gave the gradient away
  EXPECT_TRUE(node.nothing_ready());
  node.pipeline_.Enqueued(back);
  node.Enqueue(Task::kUpdate);
  node.Enqueue(Task::kFinishClock);
  node.Enqueue(Task::kBoundary);
  node.Enqueue(Task::kForward);
  node.Enqueue(Task::kBackward);
  EXPECT_TRUE(node.nothing_ready()) << "the other replica's gradient of clock 1 is not here";
  node.pipeline_.OnExchanged(1, 0, 0);
  node.Enqueue(Task::kUpdate);
}

TEST(EnqueuedTasks, ABoundaryThatNeedsThemWaitsUntilTheyAreDone) {
  Node node(Alone({kLow}), OneMicroBatch());
  node.needs_done_ = {1};
  node.Enqueue(Task::kBoundary);
  std::vector<Task> tasks;
  for (const auto kind : {Task::kForward, Task::kBackward, Task::kUpdate, Task::kFinishClock}) {
    tasks.push_back(node.Enqueue(kind));
  }
  for (const Task& task : tasks) {
    EXPECT_TRUE(node.nothing_ready()) << "before the end of: " << Describe(task);
    node.Done(task);
  }
  EXPECT_EQ(node.Take(Task::kBoundary).clock, 1);
}

TEST(EnqueuedTasks, AHostThatSaysNothingNeedsThemDone) {
  struct Silent : PipelineHost {
    std::span<std::byte> Place(int, MsgId, int) override { return {}; }
    bool InputsReady(MsgId, int) override { return true; }
    void Freed(int, MsgId) override {}
  } host;
  EXPECT_TRUE(host.BoundaryNeedsDone(5));
}

TEST(EnqueuedTasks, AJobEndsWhenItsLastTestIsDone) {
  JobShape shape = UnevenShape(1, 1, 0);
  shape.tests = {{1, 1}};
  shape.test_interval = 1;
  PipelinePlan plan = Alone({kLow});
  plan.pool_size = 2;
  Node node(plan, shape);
  node.pipeline_.OnVerdict(-1, std::nullopt);
  node.Enqueue(Task::kBoundary);
  const Task test = node.Enqueue(Task::kForward);
  EXPECT_TRUE(node.nothing_ready());
  EXPECT_FALSE(node.pipeline_.finished());
  node.Done(test);
  EXPECT_TRUE(node.pipeline_.finished());
}

/// An executor that is faster than its device: it puts `ahead` tasks into the queue, if so many are ready, before it
/// hears that the first is done. @param enqueued whether it reports tasks as enqueued.
/// @return how often the queue is empty when a task comes: the device has waited for the host.
int HostWaits(bool enqueued, size_t ahead, int micro_batches, int64_t iterations) {
  JobShape shape = OneMicroBatch(iterations + 1);
  shape.micro_batches = micro_batches;
  shape.train_batch = micro_batches;
  Node node(Alone({kLow, {.segment = 0, .deferred = true}}), shape);
  std::vector<Task> queue;
  int waits = 0;
  while (node.pipeline_.clocks_done() < iterations) {
    std::optional<Task> task;
    if (queue.size() < ahead) task = node.pipeline_.TryNextTask();
    if (task && task->kind == Task::kBoundary) {
      node.Done(*task);
    } else if (task) {
      waits += queue.empty();
      if (enqueued) node.pipeline_.Enqueued(*task);
      queue.push_back(*task);
    } else {
      const Task first = queue.front();
      queue.erase(queue.begin());
      if (first.kind == Task::kFinishClock) node.pipeline_.OnVerdict(first.clock, std::nullopt);
      node.Done(first);
    }
  }
  return waits;
}

TEST(EnqueuedTasks, TheDeviceWaitsForTheHostOnceAJobInsteadOfOnceATask) {
  const auto in_ten_iterations = [](bool enqueued, size_t ahead, int micro_batches) {
    return HostWaits(enqueued, ahead, micro_batches, 30) - HostWaits(enqueued, ahead, micro_batches, 20);
  };
  // The two updates are ready together.
  EXPECT_EQ(in_ten_iterations(false, 3, 1), 10 * 4) << "forward, backward, update, end";
  EXPECT_EQ(in_ten_iterations(false, 8, 1), 10 * 4);
  EXPECT_EQ(in_ten_iterations(false, 8, 4), 10 * (2 * 4 + 2));
  for (const size_t ahead : {3, 8}) {
    for (const int micro_batches : {1, 4}) EXPECT_EQ(in_ten_iterations(true, ahead, micro_batches), 0);
  }
  EXPECT_EQ(HostWaits(true, 8, 1, 30), 1);
}

/// Replica 0 of `OneFcStage(1, 1)`: what it computes goes to the FC node, and comes back.
TEST(EnqueuedTasks, OfANodeWithPortsNothingLeavesBeforeItIsDone) {
  const JobSpec job = OneFcStage(1, 1, false);
  Node node(job.PlanOf(0), [] {
    JobShape shape = OneMicroBatch();
    shape.micro_batches = 2;
    shape.train_batch = 2;
    return shape;
  }());
  node.Enqueue(Task::kBoundary);
  EXPECT_EQ(node.grants_, 1) << "for the gradient";
  const Task forward = node.Enqueue(Task::kForward);
  const auto tag = [](MsgId id, uint32_t channel) { return PlaceTag{id.bits, channel}; };
  node.pipeline_.OnGranted(1, tag(forward.id, 0), {}, node.place_.size());
  EXPECT_EQ(node.writes_, 0) << "the activations are not there";
  node.Done(forward);
  EXPECT_EQ(node.writes_, 1);
  node.pipeline_.OnWriteEnded(1, tag(forward.id, 0), OkStatus());
  node.pipeline_.OnGrantEnded(1, tag(forward.id, 1), OkStatus());
  const Task back = node.Enqueue(Task::kBackward);
  EXPECT_TRUE(node.nothing_ready()) << "the next micro-batch's gradient would land where this one reads";
  EXPECT_EQ(node.grants_, 1);
  EXPECT_EQ(node.freed_, 0);
  node.Done(back);
  EXPECT_EQ(node.freed_, 1);
  EXPECT_EQ(node.grants_, 2);
  node.Enqueue(Task::kForward);
}

/// The FC node: within a micro-batch, and up to the end of the clock, tasks follow; the next clock does not.
TEST(EnqueuedTasks, OfANodeWithPortsTheNextClockWaits) {
  JobSpec job = OneFcStage(1, 1, false);
  job.stages[1].groups = {{.segment = 0}, {.segment = 0, .deferred = true}};
  Node node(job.PlanOf(1), OneMicroBatch());
  node.Enqueue(Task::kBoundary);
  EXPECT_TRUE(node.nothing_ready()) << "the activations are not here";
  const MsgId id = MsgId::Make(0, true, 0, 0);
  node.pipeline_.OnGrantEnded(0, {id.bits, 0}, OkStatus());
  node.pipeline_.OnGranted(0, {id.bits, 1}, {}, node.place_.size());
  std::vector<Task> tasks;
  for (const auto kind : {Task::kForward, Task::kBackward, Task::kWeightGradient, Task::kUpdate, Task::kUpdate}) {
    tasks.push_back(node.Enqueue(kind));
  }
  EXPECT_TRUE(node.nothing_ready()) << "the gradient is not sent";
  EXPECT_EQ(node.writes_, 0);
  for (const Task& task : tasks) node.Done(task);
  EXPECT_EQ(node.writes_, 1);
  EXPECT_TRUE(node.nothing_ready());
  node.pipeline_.OnWriteEnded(0, {id.bits, 1}, OkStatus());
  EXPECT_EQ(node.freed_, 1);
  const Task finish = node.Enqueue(Task::kFinishClock);
  EXPECT_TRUE(node.nothing_ready()) << "activations of the next clock would land in rows that are still read";
  node.Done(finish);
  node.Enqueue(Task::kBoundary);
}

/// Values are copied by the host, or come from outside.
TEST(EnqueuedTasks, WithStalenessOrServersNothingFollows) {
  PipelinePlan stale = Alone({kLow}), served = Alone({kLow});
  stale.staleness = 1;
  served.groups[0].exchange = GroupExchange::kPush;
  for (const PipelinePlan& plan : {stale, served}) {
    Node node(plan, OneMicroBatch());
    node.needs_done_ = {1};
    node.Enqueue(Task::kBoundary);
    if (plan.staleness > 0) {
      EXPECT_EQ(node.Take(Task::kBoundary).clock, 1) << "beside clock 0, whatever it says";
    }
    const Task forward = node.Enqueue(Task::kForward);
    EXPECT_TRUE(node.nothing_ready());
    node.Done(forward);
    node.Take(Task::kBackward);
  }
}

}  // namespace
}  // namespace hp::test
