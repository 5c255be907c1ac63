// Snapshots that all nodes write into one folder: complete or absent, whatever fails, and the same as those that one
// node writes.
#include "checkpoint/snapshot_folder.h"
#include "checkpoint/snapshot_parts.h"
#include "snapshot/snapshotter.h"
#include "test/support/log_lines.h"
#include "test/unit/snapshot/seen_syncs.h"
#include "test/unit/snapshot/snapshot_job.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hdf5/hdf5_api.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>
#include <utility>

namespace hp::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class PartsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_parts_XXXXXX";
    folder_ = mkdtemp(name);
    Claim();
  }
  void TearDown() override {
    job_.reset();
    fs::remove_all(folder_);
  }
  void Claim() {
    auto claimed = Incarnation::Claim(folder_ + "/net");
    ASSERT_TRUE(claimed.ok()) << claimed.status();
    incarnation_ = *std::move(claimed);
  }
  void Start(Snapshotter::Options options = {}, std::function<void(const std::string&)> others = nullptr) {
    options.files.incarnation = incarnation_;
    job_ = std::make_unique<SnapshotJob>(folder_, std::move(options), std::move(others));
  }
  void Begin(int64_t clock) { job_->Begin(clock, true, false, incarnation_->number()); }
  /// Of snapshots of an iteration.
  std::vector<std::string> Files(int64_t iteration) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("net_iter_" + std::to_string(iteration) + ".")) names.push_back(name);
    }
    return names;
  }
  std::string Contents(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  std::shared_ptr<const Incarnation> incarnation_;
  std::unique_ptr<SnapshotJob> job_;
};

TEST_F(PartsTest, OwnersWriteAndTheFirstNodeMergesTheSameFilesAsWithoutThem) {
  LogLines log;
  Start();
  job_->first().OnVerdict(6);
  Begin(7);
  ASSERT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(7));
  EXPECT_THAT(Files(7), UnorderedElementsAre("net_iter_7.caffemodel", "net_iter_7.solverstate", "net_iter_7.hpnode"));
  const std::string model = Contents("net_iter_7.caffemodel"), state = Contents("net_iter_7.solverstate");
  const std::string manifest = Contents("net_iter_7.hpnode");
  job_.reset();
  for (const std::string& name : Files(7)) fs::remove(folder_ + "/" + name);
  Start();
  job_->first().OnVerdict(6);
  job_->Begin(7, true, false);
  ASSERT_TRUE(job_->Finish().ok());
  const std::string model_line = "Snapshotting to binary proto file " + folder_ + "/net_iter_7.caffemodel";
  const std::string state_line =
      "Snapshotting solver state to binary proto file " + folder_ + "/net_iter_7.solverstate";
  EXPECT_THAT(log.With("Snapshotting"), ElementsAre(model_line, state_line, model_line, state_line));
  EXPECT_EQ(Contents("net_iter_7.caffemodel"), model);
  EXPECT_EQ(Contents("net_iter_7.solverstate"), state);
}

// As nets above 2 GiB do it.
TEST_F(PartsTest, AboveTheLimitOfAMessageCaffesFilesAreHdf5) {
  if (const Status hdf5 = CheckHdf5(); !hdf5.ok()) GTEST_SKIP() << "SKIPPED: " << hdf5;
  for (bool in_parts : {true, false}) {
    LogLines log;
    Snapshotter::Options options;
    options.files.most_message_bytes = 100;
    Start(options);
    job_->first().OnVerdict(6);
    job_->Begin(7, true, false, in_parts ? incarnation_->number() : 0);
    ASSERT_TRUE(job_->Finish().ok());
    EXPECT_TRUE(job_->IsThere(7));
    EXPECT_THAT(Files(7),
                UnorderedElementsAre("net_iter_7.caffemodel.h5", "net_iter_7.solverstate.h5", "net_iter_7.hpnode"));
    EXPECT_THAT(log.With("Snapshotting"),
                ElementsAre("Snapshotting to HDF5 file " + folder_ + "/net_iter_7.caffemodel.h5",
                            "Snapshotting solver state to HDF5 file " + folder_ + "/net_iter_7.solverstate.h5"));
    const auto found = FindNewestComplete(folder_ + "/net", 0);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->state_path, folder_ + "/net_iter_7.solverstate.h5");
    EXPECT_TRUE(ReadSnapshot(found->state_path).ok());
    EXPECT_EQ(PruneSnapshots(folder_ + "/net", RunMark(), 1, {}, nullptr), 0);
    job_.reset();
  }
  const std::string whole = Contents("net_iter_7.caffemodel.h5");
  ASSERT_TRUE(ReadCaffeModel(folder_ + "/net_iter_7.caffemodel.h5").ok());
  for (size_t bytes = 0; bytes < whole.size(); bytes += 97) {
    std::ofstream(folder_ + "/cut.h5", std::ios::binary) << whole.substr(0, bytes);
    EXPECT_FALSE(ReadCaffeModel(folder_ + "/cut.h5").ok()) << bytes;
  }
}

// The merge hangs: what is there then is whole, under any view.
TEST_F(PartsTest, IsCompleteBeforeItIsMerged) {
  std::promise<void> merging, go_on;
  Snapshotter::Options options;
  options.files.before_step = [&](const std::string& step) {
    if (step != "write net_iter_5.caffemodel") return;
    merging.set_value();
    go_on.get_future().wait();
  };
  Start(options);
  job_->first().OnVerdict(4);
  Begin(5);
  merging.get_future().wait();
  EXPECT_TRUE(job_->IsThere(5));
  EXPECT_THAT(Files(5), UnorderedElementsAre("net_iter_5.hpnode", "net_iter_5.1.0.slices", "net_iter_5.1.1.slices",
                                             "net_iter_5.1.2.slices"));
  const auto found = FindSnapshots(job_->prefix());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(CheckComplete(found[0]).ok());
  Begin(6);  // the next one does not wait for it
  go_on.set_value();
  job_->first().OnVerdict(5);
  ASSERT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(5));
  EXPECT_TRUE(job_->IsThere(6));
}

TEST_F(PartsTest, WaitsForItsVerdictAndForEveryOwner) {
  std::promise<void> reached, go_on;
  std::atomic<bool> both = false;
  Snapshotter::Options options;
  options.files.before_step = [&](const std::string& step) {
    EXPECT_TRUE(both || step.find("slices") != std::string::npos) << step;
  };
  std::atomic<bool> first = true;
  Start(options, [&](const std::string& step) {
    if (!step.starts_with("sync net_iter_5.1.2.")) return;
    if (first.exchange(false)) reached.set_value();
    go_on.get_future().wait();
  });
  Begin(5);
  reached.get_future().wait();
  EXPECT_FALSE(job_->IsThere(5));
  both = true;
  job_->first().OnVerdict(4);
  EXPECT_FALSE(job_->IsThere(5));
  go_on.set_value();
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_TRUE(job_->IsThere(5));
}

TEST_F(PartsTest, EveryPartIsOnTheDiskBeforeTheManifestNamesIt) {
  const SeenSyncs seen;
  std::atomic<int> manifests = 0;
  Snapshotter::Options options;
  options.files.before_step = [&](const std::string& step) {
    if (step != "write net_iter_5.hpnode") return;
    ++manifests;
    for (int owner = 0; owner < SnapshotJob::kNodes; ++owner) {
      const std::string name = "net_iter_5.1." + std::to_string(owner) + ".slices";
      EXPECT_EQ(seen.BytesOf(name + ".1.tmp"), static_cast<int64_t>(fs::file_size(folder_ + "/" + name))) << name;
    }
  };
  Start(options);
  job_->first().OnVerdict(4);
  Begin(5);
  ASSERT_TRUE(job_->Finish().ok());
  EXPECT_GE(manifests, 1);
  EXPECT_TRUE(job_->IsThere(5));
}

TEST_F(PartsTest, APartThatTheDiskDoesNotTakeIsNotReported) {
  SeenSyncs seen;
  seen.Fail("net_iter_1.1.2.slices.1.tmp");
  Snapshotter::Options options;
  options.files.retry_ms = 3'600'000;
  Start(options);
  job_->first().OnVerdict(0);
  Begin(1);
  const Status status = job_->Finish();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("node 2 (n2) has given up its part: "));
  EXPECT_THAT(status.message(), HasSubstr("cannot sync"));
  EXPECT_FALSE(job_->IsThere(1));
}

/// The parts are the snapshot's now.
TEST_F(PartsTest, AnErrorBehindTheManifestTakesNothingAway) {
  SeenSyncs seen;
  Snapshotter::Options options;
  options.files.before_step = [&, syncs = 0](const std::string& step) mutable {
    if (step == "sync the folder of net_iter_5.hpnode" && ++syncs == 2) seen.Fail(fs::path(folder_).filename());
  };
  Start(options);
  LogLines log;
  job_->first().OnVerdict(4);
  Begin(5);
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_THAT(log.With("the snapshot is complete, but "), ElementsAre(HasSubstr("cannot sync")));
  const auto found = FindSnapshots(job_->prefix());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(CheckComplete(found[0]).ok());
}

/// Two that are complete and not merged, and one that is given up.
TEST_F(PartsTest, OneThatIsGivenUpMakesRoomBeforeItSaysSo) {
  std::promise<void> completing, go_on;
  Snapshotter::Options options;
  std::atomic<bool> first = true;
  options.files.before_step = [&](const std::string& step) {
    if (step != "write net_iter_5.hpnode" || !first.exchange(false)) return;
    completing.set_value();
    go_on.get_future().wait();
  };
  std::atomic<bool> watches = false, had_room = false;
  std::atomic<std::thread::id> completer;  // whose next word is of the one that is given up; merges come later
  options.on_written = [&](int64_t) {
    if (watches) completer = std::this_thread::get_id();
  };
  options.on_room = [&] {
    if (!watches || completer.load() != std::this_thread::get_id()) return;
    watches = false;
    had_room = job_->first().HasRoom(true, incarnation_->number());
  };
  Start(options);
  job_->first().OnVerdict(6);
  Begin(5);
  completing.get_future().wait();
  Begin(6);
  SnapshotPartWritten lie;
  lie.set_fault("a lie");
  lie.set_iteration(7);
  for (Rank owner = 0; owner < SnapshotJob::kNodes; ++owner) job_->first().OnPart(owner, lie);
  Begin(7);
  watches = true;
  go_on.set_value();
  EXPECT_FALSE(job_->Finish().ok());
  EXPECT_TRUE(had_room);
}

// A folder in the place of its temporary file: that owner cannot write.
TEST_F(PartsTest, OneFailureAbandonsItAndLeavesNothing) {
  fs::create_directory(folder_ + "/net_iter_1.1.2.slices.1.tmp");
  Snapshotter::Options options;
  options.files.retry_ms = 3'600'000;
  Start(options);
  for (int64_t clock : {0, 1}) job_->first().OnVerdict(clock);
  Begin(1);
  Begin(2);
  EXPECT_TRUE(job_->Finish().ok());
  EXPECT_FALSE(job_->IsThere(1));
  EXPECT_TRUE(job_->IsThere(2));
  EXPECT_THAT(Files(1), UnorderedElementsAre("net_iter_1.1.2.slices.1.tmp"));
}

TEST_F(PartsTest, SaysWhatKeptTheLastOneFromTheDisk) {
  fs::create_directory(folder_ + "/net_iter_1.1.2.slices.1.tmp");
  Snapshotter::Options options;
  options.files.retry_ms = 3'600'000;
  Start(options);
  job_->first().OnVerdict(0);
  Begin(1);
  const Status status = job_->Finish();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("node 2 (n2) has given up its part: "));
}

// By an owner that lies: of snapshots that nobody has begun, that are done, and a second time. The nearest are kept.
TEST_F(PartsTest, ReportsThatNobodyWaitsForAreFewAndHoldNothingUp) {
  Start();
  job_->first().OnVerdict(6);
  SnapshotPartWritten lie;
  lie.set_fault("a lie");
  for (int64_t iteration = 100'000; iteration >= 9; --iteration) {
    lie.set_iteration(iteration);
    job_->first().OnPart(2, lie);
  }
  lie.set_iteration(1);
  job_->first().OnPart(7, lie);  // no owner
  EXPECT_EQ(job_->first().early_reports(), SnapshotCompleter::kMaxEarly);
  Begin(7);
  lie.set_iteration(7);
  ASSERT_TRUE(job_->Finish().ok());
  // One fewer where the true report of 7 came before the first node began it: it took the place of the farthest lie.
  const size_t kept = job_->first().early_reports();
  EXPECT_GE(kept, SnapshotCompleter::kMaxEarly - 1);
  job_->first().OnPart(2, lie);
  EXPECT_TRUE(job_->IsThere(7));
  EXPECT_EQ(job_->first().early_reports(), kept) << "7 is done";
  job_->first().OnVerdict(8);
  Begin(9);  // the nearest lie counts: its own snapshot is given up
  EXPECT_THAT(job_->Finish().message(), HasSubstr("node 2 (n2) has given up its part: a lie"));
  EXPECT_EQ(job_->first().early_reports(), kept - 1);
}

// A lost owner's report never comes: nobody waits for it when the job ends.
TEST_F(PartsTest, AbortEndsTheWaitForAnOwner) {
  Start();
  job_->first().OnVerdict(0);
  ASSERT_TRUE(job_->first().Begin(1, 1, true, false, std::nullopt, 1).ok());
  job_->first().Abort(Unavailable("node \"n1\" is lost"));
  EXPECT_EQ(job_->first().Finish().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(job_->IsThere(1));
}

// What a start leaves that was killed in the middle: parts without a manifest, of whatever size. The next start removes
// them, keeps those that a manifest names, and merges these.
TEST_F(PartsTest, AnotherStartRemovesStalePartsAndMergesWhatIsComplete) {
  std::promise<void> merging;
  std::promise<void> go_on;
  Snapshotter::Options options;
  options.files.on_superseded = [](const Status&) {};
  options.files.before_step = [&, first = true](const std::string& step) mutable {
    if (step != "write net_iter_5.caffemodel" || !std::exchange(first, false)) return;
    merging.set_value();
    go_on.get_future().wait();
  };
  Start(options);
  job_->first().OnVerdict(4);
  Begin(5);
  merging.get_future().wait();
  std::ofstream(folder_ + "/net_iter_9.1.1.slices") << "half";
  std::ofstream(folder_ + "/net_iter_5.1.7.slices") << "of nobody";
  Claim();
  go_on.set_value();  // the old start finds that it has a successor
  EXPECT_TRUE(job_->Finish().ok());
  job_.reset();
  EXPECT_THAT(Files(9), testing::IsEmpty());
  EXPECT_THAT(Files(5), UnorderedElementsAre("net_iter_5.hpnode", "net_iter_5.1.0.slices", "net_iter_5.1.1.slices",
                                             "net_iter_5.1.2.slices"));
  Start();
  EXPECT_TRUE(job_->IsThere(5));
  job_->first().OnVerdict(9);
  Begin(10);
  EXPECT_TRUE(job_->Finish().ok());
  for (int64_t iteration : {5, 10}) {
    EXPECT_TRUE(job_->IsThere(iteration));
    EXPECT_EQ(Files(iteration).size(), 3u);
  }
}

// The same iteration again, by another start: the old one goes, whatever it was.
TEST_F(PartsTest, ReplacesAnOlderSnapshotOfItsIteration) {
  for (int start = 1; start <= 3; ++start) {
    if (start > 1) Claim();
    Start();
    job_->first().OnVerdict(4);
    job_->Begin(5, true, false, start == 2 ? 0 : incarnation_->number());
    EXPECT_TRUE(job_->Finish().ok());
    EXPECT_TRUE(job_->IsThere(5));
    EXPECT_EQ(Files(5).size(), 3u);
    job_.reset();
  }
}

/// A manifest in parts, and its files.
class DamagedPartsTest : public PartsTest {
 protected:
  void SetUp() override {
    PartsTest::SetUp();
    Snapshotter::Options options;
    std::promise<void> merging;
    options.files.on_superseded = [](const Status&) {};
    options.files.before_step = [&merging](const std::string& step) {
      if (step == "write net_iter_5.caffemodel") merging.set_value();
      if (step == "rename net_iter_5.caffemodel") throw std::bad_alloc();  // stops the merge
    };
    Start(options);
    job_->first().OnVerdict(4);
    Begin(5);
    merging.get_future().wait();
    EXPECT_TRUE(job_->Finish().ok());
    ASSERT_TRUE(job_->IsThere(5));
    ASSERT_EQ(Files(5).size(), 4u);
  }
  Status ReadStatus() const { return ReadSnapshot(SnapshotStatePath(folder_ + "/net", 5)).status(); }
};

TEST_F(DamagedPartsTest, IsRefusedWithAPartCutChangedOrGone) {
  const std::string path = folder_ + "/net_iter_5.1.1.slices";
  const std::string whole = Contents("net_iter_5.1.1.slices");
  for (size_t bytes = 0; bytes < whole.size(); bytes += 3) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
    EXPECT_EQ(ReadStatus().code(), StatusCode::kDataLoss) << bytes;
  }
  std::string changed = whole;
  changed[5] ^= 1;
  std::ofstream(path, std::ios::binary) << changed;
  EXPECT_EQ(ReadStatus().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(FindNewestComplete(folder_ + "/net", 0));
  fs::remove(path);
  EXPECT_EQ(ReadStatus().code(), StatusCode::kNotFound);
  std::ofstream(path, std::ios::binary) << whole;
  EXPECT_TRUE(ReadStatus().ok());
  EXPECT_TRUE(FindNewestComplete(folder_ + "/net", 0));
}

TEST_F(DamagedPartsTest, AManifestThatContradictsItselfIsRefused) {
  const std::string path = SnapshotManifestPath(folder_ + "/net", 5);
  const SnapshotManifest good = *ReadManifestFile(path);
  const auto refused = [&](const std::function<void(SnapshotManifest*)>& change) {
    SnapshotManifest bad = good;
    change(&bad);
    EXPECT_EQ(PartsReader::Open(bad, path).status().code(), StatusCode::kDataLoss) << bad.DebugString();
  };
  refused([](auto* bad) { bad->mutable_blob(0)->set_dim(0, -1); });
  refused([](auto* bad) { bad->mutable_blob(0)->set_dim(0, int64_t{1} << 62); });
  refused([](auto* bad) { bad->mutable_part(1)->mutable_slice(0)->set_blob(99); });
  refused([](auto* bad) { bad->mutable_part(1)->mutable_slice(0)->set_end_row(99); });
  refused([](auto* bad) { bad->mutable_part(1)->mutable_slice(0)->set_begin_row(1); });
  refused([](auto* bad) { bad->mutable_part(1)->mutable_file()->set_bytes(1); });
  refused([](auto* bad) { bad->mutable_part()->DeleteSubrange(2, 1); });
  EXPECT_TRUE(PartsReader::Open(good, path).ok());
}

}  // namespace
}  // namespace hp::test
