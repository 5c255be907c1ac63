#include "snapshot/snapshotter.h"

#include "scheduler/pipeline/pipeline.h"
#include "test/unit/snapshot/snapshot_job.h"

#include "gtest/gtest.h"

#include <atomic>
#include <filesystem>
#include <future>

namespace hp::test {
namespace {

namespace fs = std::filesystem;

class SnapshotterTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_snapshotter_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override {
    job_.reset();
    fs::remove_all(folder_);
  }
  void Start(Snapshotter::Options options = {}) { job_ = std::make_unique<SnapshotJob>(folder_, std::move(options)); }

  std::string folder_;
  std::unique_ptr<SnapshotJob> job_;
};

/// Makes the snapshot thread wait before a step of its files until the test lets it go on: a disk that hangs.
class HangingDisk {
 public:
  explicit HangingDisk(std::string step) : step_(std::move(step)) {}
  std::function<void(const std::string&)> before_step() {
    return [this](const std::string& step) {
      if (step != step_) return;
      reached_.set_value();
      released_.get_future().wait();
    };
  }
  void WaitUntilReached() { reached_.get_future().wait(); }
  void Release() { released_.set_value(); }

 private:
  const std::string step_;
  std::promise<void> reached_, released_;
};

TEST_F(SnapshotterTest, GathersRowsAndColumnsFromTheirOwners) {
  std::promise<std::shared_ptr<const GatheredModel>> pulled;
  Snapshotter::Options options;
  options.on_pulled = [&](std::shared_ptr<const GatheredModel> model) { pulled.set_value(std::move(model)); };
  Start(options);
  job_->Begin(7, true, true);
  job_->Train(8);  // training goes on: the copies must be of version 7
  const auto model = pulled.get_future().get();
  EXPECT_EQ(model->iteration(), 7);
  for (size_t p = 0; p < job_->params().size(); ++p) {
    const std::vector<float> whole = SnapshotJob::Numbers(p, job_->params()[p].whole.whole.count(), 7, false);
    for (size_t begin = 0; begin < whole.size(); ++begin) {
      std::vector<float> part(std::min<size_t>(5, whole.size() - begin));
      model->CopyValues(p, static_cast<int64_t>(begin), part);
      EXPECT_EQ(part, std::vector<float>(whole.begin() + begin, whole.begin() + begin + part.size()));
    }
  }
  job_->first().OnVerdict(6);
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(7));
}

TEST_F(SnapshotterTest, AModelForClientsHasNoHistories) {
  std::promise<std::shared_ptr<const GatheredModel>> pulled;
  Snapshotter::Options options;
  options.on_pulled = [&](std::shared_ptr<const GatheredModel> model) { pulled.set_value(std::move(model)); };
  Start(options);
  job_->Begin(3, false, true);
  const auto model = pulled.get_future().get();
  for (size_t p = 0; p < job_->params().size(); ++p) {
    const auto& slices = job_->params()[p].slices;
    for (size_t s = 0; s < slices.size(); ++s) {
      EXPECT_EQ(model->arrays(p), 1);
      EXPECT_EQ(model->Place(p, s, 0).size(), static_cast<size_t>(slices[s].block.count()));
    }
  }
  EXPECT_TRUE(job_->Finish().ok());
}

/// The first node's pipeline, whose every boundary but the first takes a snapshot.
class FirstNode : public PipelineHost {
 public:
  explicit FirstNode(Transport* transport) {
    PipelinePlan plan;
    plan.phases.assign(2, {PhasePlan{.backward = {false}, .ports = {}}});
    JobShape shape;
    shape.train_batch = 1;
    shape.max_iter = 10;
    pipeline_ = std::make_unique<Pipeline>(plan, Schedule(shape), this, transport);
  }

  Pipeline& pipeline() { return *pipeline_; }
  void Run(SnapshotJob* job) {
    job_ = job;
    for (int64_t clock = 0; clock < 10; ++clock) {
      pipeline_->OnVerdict(clock, std::nullopt);
      job->first().OnVerdict(clock);
    }
    pipeline_->Start();
  }
  /// The next task as "boundary 3", carried out; "" if none is ready.
  std::string Next() { return Carry(pipeline_->TryNextTask()); }
  /// Waits for it.
  std::string WaitForNext() { return Carry(pipeline_->NextTask()); }

 private:
  std::string Carry(const std::optional<Task>& task) {
    if (!task) return "";
    const std::string clock = std::to_string(task->clock);
    if (task->kind == Task::kBoundary && task->clock > 0) job_->Begin(task->clock, true, false);
    pipeline_->Done(*task);
    if (task->kind == Task::kBoundary) return "boundary " + clock;
    return (task->kind == Task::kForward ? "forward " : "finish ") + clock;
  }
  std::span<std::byte> Place(int, MsgId, int) override { return {}; }
  bool InputsReady(MsgId, int) override { return true; }
  void Freed(int, MsgId) override {}
  bool BoundaryReady(int64_t clock) override { return clock == 0 || job_->first().HasRoom(true); }

  std::unique_ptr<Pipeline> pipeline_;
  SnapshotJob* job_ = nullptr;
};

// One peer's slices of version 1 do not arrive. The boundaries in front of 1 and 2 end and their clocks are computed;
// the one in front of 3 would need memory for a third version, and comes when that slice has come.
TEST_F(SnapshotterTest, TrainingGoesOnWhileASliceIsOnItsWay) {
  Wire unused(1);
  FirstNode node(unused.transport(0));
  Snapshotter::Options options;
  options.on_room = [&] { node.pipeline().OnBoundaryReady(); };
  Start(options);
  job_->wire().Hold(2);
  node.Run(job_.get());
  for (const char* task : {"boundary 0", "forward 0", "finish 0", "boundary 1", "forward 1", "finish 1", "boundary 2",
                           "forward 2", "finish 2", ""}) {
    EXPECT_EQ(node.Next(), task);
  }
  EXPECT_FALSE(job_->IsThere(1));
  job_->wire().Release(2);
  for (const char* task : {"boundary 3", "forward 3", "finish 3"}) EXPECT_EQ(node.WaitForNext(), task);
  EXPECT_TRUE(job_->Finish().ok());
  for (int64_t clock : {1, 2, 3}) EXPECT_TRUE(job_->IsThere(clock)) << clock;
  job_.reset();  // calls on_room no more
}

TEST_F(SnapshotterTest, APullDoesNotWaitForTheDisk) {
  HangingDisk disk("write net_iter_1.caffemodel");
  std::promise<std::shared_ptr<const GatheredModel>> pulled;
  Snapshotter::Options options;
  options.files.before_step = disk.before_step();
  options.on_pulled = [&](std::shared_ptr<const GatheredModel> model) { pulled.set_value(std::move(model)); };
  Start(options);
  for (int64_t clock : {0, 1}) job_->first().OnVerdict(clock);
  job_->Begin(1, true, false);
  disk.WaitUntilReached();
  job_->Begin(2, true, false);
  EXPECT_FALSE(job_->first().HasRoom(true));
  job_->Begin(3, false, true);
  EXPECT_EQ(pulled.get_future().get()->iteration(), 3);
  disk.Release();
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(1));
  EXPECT_TRUE(job_->IsThere(2));
  EXPECT_FALSE(job_->IsThere(3));
}

TEST_F(SnapshotterTest, IsRenamedIntoPlaceAfterItsVerdict) {
  HangingDisk written("write net_iter_5.hpnode");
  std::atomic<bool> verdict = false;
  Snapshotter::Options options;
  options.files.before_step = [&, before = written.before_step()](const std::string& step) {
    before(step);
    EXPECT_TRUE(verdict || step.starts_with("write")) << step;
  };
  Start(options);
  job_->first().OnVerdict(3);
  job_->Begin(5, true, false);
  written.WaitUntilReached();
  written.Release();
  EXPECT_FALSE(job_->IsThere(5));
  verdict = true;
  job_->first().OnVerdict(4);
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(5));
}

TEST_F(SnapshotterTest, CountsWhenItsCopyIsComplete) {
  HangingDisk written("write net_iter_5.hpnode");
  std::atomic<bool> copied = false;
  Snapshotter::Options options;
  options.files.copied = true;
  options.files.before_step = [&, before = written.before_step()](const std::string& step) {
    before(step);
    EXPECT_TRUE(copied || step.starts_with("write")) << step;
  };
  Start(options);
  job_->first().OnVerdict(4);
  job_->Begin(5, true, false);
  written.WaitUntilReached();
  written.Release();
  job_->first().OnCopied(4, OkStatus());  // of another one
  EXPECT_FALSE(job_->IsThere(5));
  copied = true;
  job_->first().OnCopied(5, OkStatus());
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(5));
}

TEST_F(SnapshotterTest, IsGivenUpWithItsCopyAndTheNextOneIsWritten) {
  Snapshotter::Options options;
  options.files.copied = true;
  options.files.retry_ms = 3'600'000;
  Start(options);
  job_->first().OnVerdict(1);
  job_->first().OnCopied(1, InternalError("its disk is full"));
  job_->first().OnCopied(2, OkStatus());
  job_->Begin(1, true, false);
  job_->Begin(2, true, false);
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_FALSE(job_->IsThere(1));
  EXPECT_TRUE(job_->IsThere(2));
}

// A disk that comes back only for the second snapshot: the first one is tried again until then, and not any more.
TEST_F(SnapshotterTest, ANewerSnapshotEndsTheRetriesOfAnOlderOne) {
  HangingDisk second("write net_iter_2.caffemodel");
  Snapshotter::Options options;
  options.files.retry_ms = 3'600'000;
  options.files.before_step = second.before_step();
  Start(options);
  fs::remove(folder_);
  job_->first().OnVerdict(1);
  job_->Begin(1, true, false);
  job_->Begin(2, true, false);
  second.WaitUntilReached();
  fs::create_directory(folder_);
  second.Release();
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_FALSE(job_->IsThere(1));
  EXPECT_TRUE(job_->IsThere(2));
}

TEST_F(SnapshotterTest, SaysWhatKeptTheLastOneFromTheDisk) {
  Snapshotter::Options options;
  options.files.retry_ms = 3'600'000;
  Start(options);
  fs::remove(folder_);
  job_->Begin(1, true, false);
  EXPECT_EQ(job_->Finish().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hp::test
