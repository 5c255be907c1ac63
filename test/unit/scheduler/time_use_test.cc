// What a pipeline says that its node's time went into: each cause once, by hand, with a peer that this test plays. And
// what it has on hand meanwhile, as the job's status tells it.
#include "scheduler/pipeline/time_use.h"

#include "scheduler/pipeline/pipeline.h"
#include "test/unit/scheduler/checked_node.h"
#include "transport/partial_transport.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>

namespace hp::test {
namespace {

TEST(TimeKeeperTest, EachMomentCountsOnce) {
  TimeKeeper keeper;
  keeper.Rest(100);
  keeper.Compute(110);
  keeper.Await(130, Wait::kInput);
  keeper.Await(135, Wait::kVerdict);
  keeper.Rest(140);
  keeper.Compute(200);
  const TimeUse use = keeper.Until(207);
  EXPECT_EQ(use.computing_ns, 27);
  EXPECT_EQ(use.waiting(Wait::kInput), 5);
  EXPECT_EQ(use.waiting(Wait::kVerdict), 5);
  EXPECT_EQ(use.waiting(Wait::kSends), 0);
  EXPECT_EQ(keeper.Until(210).computing_ns, 30);
}

/// Keeps the tags of what is granted and written; nothing ends by itself.
class KeptTransport : public PartialTransport {
 public:
  std::deque<PlaceTag> grants, writes;

  hp::Status Grant(Rank, const PlaceTag& tag, std::span<std::byte>) override {
    grants.push_back(tag);
    return OkStatus();
  }
  hp::Status Write(Rank, const PlaceTag& tag, RemoteGrant, std::span<const std::byte>) override {
    writes.push_back(tag);
    return OkStatus();
  }
};

class RoomNode : public CheckedNode {
 public:
  using CheckedNode::CheckedNode;
  bool BoundaryReady(int64_t) override { return room; }
  bool room = true;
};

JobSpec Simple(JobSpec job) {
  job.shape = UnevenShape(job.stages[0].parts, 2, 4);
  job.shape.iter_size = 1;
  job.shape.tests.clear();
  job.pool_size = 1;
  return job;
}

/// Node 0 of a job whose peers are this test.
class TimeUseTest : public testing::Test {
 protected:
  void Begin(const JobSpec& job) {
    node_ = std::make_unique<RoomNode>(job, 0);
    pipeline_ = std::make_unique<Pipeline>(node_->plan(), node_->schedule(), node_.get(), &transport_, &clock_);
    pipeline_->Start();
  }
  void TakeInputs() {
    while (node_->TakeInput()) {
    }
    pipeline_->OnInputs();
  }
  /// Every task takes 1 ns. @return how many there were until none was ready.
  int RunReady() {
    int tasks = 0;
    while (const std::optional<Task> task = pipeline_->TryNextTask()) {
      node_->Run(*task);
      clock_.Advance(1);
      pipeline_->Done(*task);
      ++tasks;
      ++tasks_;
    }
    return tasks;
  }
  /// What the node waits for: 10 ns go by.
  int64_t Waits(Wait wait) {
    const int64_t before = pipeline_->time_use().waiting(wait);
    clock_.Advance(10);
    waited_ns_ += 10;
    return pipeline_->time_use().waiting(wait) - before;
  }
  /// All time is told.
  void ExpectComplete() {
    const TimeUse use = pipeline_->time_use();
    EXPECT_EQ(use.computing_ns, tasks_);
    int64_t waited_ns = 0;
    for (int64_t ns : use.waiting_ns) waited_ns += ns;
    EXPECT_EQ(waited_ns, waited_ns_);
  }

  FakeClock clock_;
  KeptTransport transport_;
  std::unique_ptr<RoomNode> node_;
  std::unique_ptr<Pipeline> pipeline_;
  int64_t tasks_ = 0, waited_ns_ = 0;
};

TEST_F(TimeUseTest, OfAReplicaBesideAnFcNode) {
  Begin(Simple(OneFcStage(1, 1, false)));
  RunReady();
  EXPECT_EQ(Waits(Wait::kInput), 10);
  TakeInputs();
  EXPECT_EQ(RunReady(), 1);
  EXPECT_EQ(Waits(Wait::kGrants), 10);  // the FC node has no free solver
  ASSERT_EQ(transport_.grants.size(), 1u);
  const PlaceTag gradient = transport_.grants.front();
  const MsgId id{gradient.msg_id};
  uint32_t channel = 0;
  for (const PortPlan& port : node_->plan().phase(id).ports) {
    if (!port.landing) channel = port.channel;
  }
  pipeline_->OnGranted(1, {id.bits, channel}, {}, sizeof(uint64_t));
  ASSERT_EQ(transport_.writes.size(), 1u);
  EXPECT_EQ(Waits(Wait::kGradients), 10);
  pipeline_->OnGrantEnded(1, gradient, OkStatus());
  EXPECT_GE(RunReady(), 1);
  EXPECT_EQ(Waits(Wait::kSends), 10);
  pipeline_->OnWriteEnded(1, transport_.writes.front(), OkStatus());
  EXPECT_EQ(RunReady(), 1);  // the next micro-batch has the solver
  EXPECT_EQ(Waits(Wait::kGrants), 10);
  ExpectComplete();
}

TEST_F(TimeUseTest, LoadOfAReplicaBesideAnFcNode) {
  const auto load = [this] {
    const Pipeline::Load now = pipeline_->load();
    return std::array{now.solvers_free, now.solvers_bound, now.tasks_ready, now.tensors_waiting};
  };
  JobSpec job = Simple(OneFcStage(1, 1, false));
  job.pool_size = 4;
  Begin(job);
  RunReady();
  EXPECT_EQ(load(), (std::array{2, 2, 0, 0})) << "two micro-batches, which have no images";
  TakeInputs();
  EXPECT_EQ(load(), (std::array{2, 2, 2, 0})) << "their forward passes";
  EXPECT_EQ(RunReady(), 2);
  EXPECT_EQ(load(), (std::array{2, 2, 0, 2})) << "their activations, for which the FC node has no place";
  const PlaceTag gradient = transport_.grants.front();
  const MsgId id{gradient.msg_id};
  uint32_t channel = 0;
  for (const PortPlan& port : node_->plan().phase(id).ports) {
    if (!port.landing) channel = port.channel;
  }
  pipeline_->OnGranted(1, {id.bits, channel}, {}, sizeof(uint64_t));
  EXPECT_EQ(load(), (std::array{2, 2, 0, 2})) << "one of them is on its way";
  pipeline_->OnWriteEnded(1, transport_.writes.front(), OkStatus());
  EXPECT_EQ(load(), (std::array{2, 2, 0, 1}));
  pipeline_->OnGrantEnded(1, gradient, OkStatus());
  EXPECT_EQ(load(), (std::array{2, 2, 1, 1})) << "its backward pass";
  EXPECT_GE(RunReady(), 1);
  EXPECT_EQ(load(), (std::array{3, 1, 0, 1}));
}

TEST_F(TimeUseTest, OfAnFcNode) {
  JobSpec job = Simple(OneFcStage(1, 1, false));
  node_ = std::make_unique<RoomNode>(job, 1);
  pipeline_ = std::make_unique<Pipeline>(node_->plan(), node_->schedule(), node_.get(), &transport_, &clock_);
  pipeline_->Start();
  RunReady();
  EXPECT_EQ(Waits(Wait::kActivations), 10);
  pipeline_->OnGrantEnded(0, transport_.grants.front(), OkStatus());
  EXPECT_EQ(Waits(Wait::kInput), 10);  // labels
  TakeInputs();
  EXPECT_GE(RunReady(), 2);
  EXPECT_EQ(Waits(Wait::kGrants), 10);
  ExpectComplete();
}

TEST_F(TimeUseTest, OfAReplicaAtTheEndOfAnIteration) {
  Begin(Simple(NoFcStage(2)));
  TakeInputs();
  for (int64_t clock : {0, 1}) {
    RunReady();
    EXPECT_EQ(Waits(Wait::kExchange), 10) << clock;
    for (int group = 0; group < static_cast<int>(node_->plan().groups.size()); ++group) {
      if (node_->plan().groups[group].exchange != GroupExchange::kSum) continue;
      node_->OnExchanged(clock, group);
      pipeline_->OnExchanged(clock, 0, group);
    }
    RunReady();
  }
  EXPECT_EQ(Waits(Wait::kVerdict), 10);
  node_->room = false;
  node_->OnVerdict(0);
  pipeline_->OnVerdict(0, std::nullopt);
  EXPECT_EQ(Waits(Wait::kSnapshot), 10);
  node_->room = true;
  pipeline_->OnBoundaryReady();
  EXPECT_GE(RunReady(), 1);
  ExpectComplete();
}

}  // namespace
}  // namespace hp::test
