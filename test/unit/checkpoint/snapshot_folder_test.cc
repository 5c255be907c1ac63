#include "checkpoint/snapshot_folder.h"

#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_lines.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hdf5/hdf5_api.h"
#include <sys/inotify.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr uint64_t kNet = 0xFEDC;

RunMark Mark(uint64_t id, int64_t began_us) {
  RunMark run;
  run.set_id(id);
  run.set_began_us(began_us);
  return run;
}

class SnapshotFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_snapshots_XXXXXX";
    folder_ = mkdtemp(name);
    net_.add_layer()->set_name("fc");
    std::iota(values_.begin(), values_.end(), 1.0f);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(int64_t iteration, const RunMark& run, uint64_t net_hash = kNet) {
    SnapshotContents contents;
    contents.prefix = Prefix();
    contents.iteration = iteration;
    contents.net = &net_;
    contents.params = {{"fc", 0, {5, 4}, {{{values_.data()}, {values_.data()}}}}};
    contents.most_message_bytes = most_message_bytes_;
    contents.manifest.set_net_hash(net_hash);
    *contents.manifest.mutable_run() = run;
    auto pending = PrepareSnapshot(contents);
    ASSERT_TRUE(pending.ok() && (*pending)->Commit().ok());
  }
  std::string Prefix() const { return folder_ + "/net"; }
  std::vector<int64_t> Found() const {
    std::vector<int64_t> iterations;
    for (const FoundSnapshot& found : FindSnapshots(Prefix())) iterations.push_back(found.manifest.iteration());
    return iterations;
  }
  int64_t Newest() const {
    const auto found = FindNewestComplete(Prefix(), kNet);
    return found ? found->manifest.iteration() : -1;
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::string folder_;
  int64_t most_message_bytes_ = kMostMessageBytes;
  caffe::NetParameter net_;
  std::vector<float> values_ = std::vector<float>(20);
};

TEST_F(SnapshotFolderTest, TheNewestRunComesFirstWhateverItsIterations) {
  Write(500, Mark(1, 1000));
  Write(30, Mark(2, 2000));
  Write(100, Mark(2, 2000));
  Write(900, {});
  EXPECT_THAT(Found(), ElementsAre(100, 30, 500, 900));
  EXPECT_EQ(Newest(), 100);
}

TEST_F(SnapshotFolderTest, WhatTheRunWentBackBehindIsPassedOver) {
  for (const int64_t iteration : {10, 20, 40}) Write(iteration, Mark(1, 1000));
  RunMark back = Mark(1, 2000);
  back.set_resumed_from(20);
  back.set_resumed_began_us(1000);
  EXPECT_EQ(FindNewestComplete(Prefix(), kNet, back)->manifest.iteration(), 20);
  Write(30, back);
  EXPECT_EQ(FindNewestComplete(Prefix(), kNet, back)->manifest.iteration(), 30);
  EXPECT_EQ(FindNewestComplete(Prefix(), kNet, Mark(2, 3000))->manifest.iteration(), 30) << "another run's business";
}

TEST_F(SnapshotFolderTest, WhatIsNotCompleteIsPassedOver) {
  for (const int64_t iteration : {10, 20, 30, 40}) Write(iteration, Mark(1, 1000));
  Write(50, Mark(1, 1000), kNet + 1);
  fs::resize_file(SnapshotModelPath(Prefix(), 40), 30);  // cut short
  {
    std::fstream file(SnapshotStatePath(Prefix(), 30), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('x');
  }
  EXPECT_EQ(Newest(), 20);
  fs::remove(SnapshotModelPath(Prefix(), 20));
  EXPECT_EQ(Newest(), 10);
  std::ofstream(SnapshotManifestPath(Prefix(), 10)) << "not a manifest";
  EXPECT_EQ(Newest(), -1);
}

TEST_F(SnapshotFolderTest, OnlyThisRunsOldSnapshotsGo) {
  for (const int64_t iteration : {10, 20, 30, 40, 50}) Write(iteration, Mark(1, 1000));
  Write(25, Mark(2, 500));
  Write(5, {});
  EXPECT_EQ(PruneSnapshots(Prefix(), Mark(1, 1000), 2, {20}, nullptr), 2);
  EXPECT_THAT(Found(), ElementsAre(50, 40, 20, 25, 5));
  EXPECT_EQ(Files(), 15u);
  EXPECT_EQ(Newest(), 50);
}

// A snapshot whose manifest is gone is none; one whose files are gone, and not its manifest, would be a broken one.
TEST_F(SnapshotFolderTest, AManifestGoesBeforeItsFiles) {
  for (const int64_t iteration : {10, 20, 30}) Write(iteration, Mark(1, 1000));
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(watch, folder_.c_str(), IN_DELETE), 0);
  EXPECT_EQ(PruneSnapshots(Prefix(), Mark(1, 1000), 1, {}, nullptr), 2);
  alignas(inotify_event) char events[4096];
  const ssize_t bytes = read(watch, events, sizeof(events));
  close(watch);
  std::vector<std::string> removed;
  for (ssize_t at = 0; at < bytes;) {
    const auto* event = reinterpret_cast<const inotify_event*>(events + at);
    removed.emplace_back(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_THAT(removed, ElementsAre("net_iter_20.hpnode", "net_iter_20.solverstate", "net_iter_20.caffemodel",
                                   "net_iter_10.hpnode", "net_iter_10.solverstate", "net_iter_10.caffemodel"));
}

TEST_F(SnapshotFolderTest, AStartWithASuccessorRemovesNothing) {
  for (const int64_t iteration : {10, 20}) Write(iteration, Mark(1, 1000));
  const auto first = Incarnation::Claim(Prefix(), Mark(1, 1000));
  ASSERT_TRUE(first.ok());
  const auto second = Incarnation::Claim(Prefix(), Mark(1, 1500));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(PruneSnapshots(Prefix(), Mark(1, 1000), 1, {}, first->get()), 0);
  EXPECT_THAT(Found(), ElementsAre(20, 10));
  EXPECT_EQ(RunOfLatestStart(Prefix())->id(), 1u);
  EXPECT_EQ(RunOfLatestStart(Prefix())->began_us(), 1500);
  EXPECT_EQ(PruneSnapshots(Prefix(), Mark(1, 1000), 1, {}, second->get()), 1);
}

TEST_F(SnapshotFolderTest, AnEmptyFolderHasNone) {
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_EQ(Newest(), -1);
  EXPECT_FALSE(RunOfLatestStart(Prefix()).has_value());
}

// What hplaunch copies to other hosts.
TEST_F(SnapshotFolderTest, ItsFiles) {
  const std::string state = SnapshotStatePath(Prefix(), 10), model = SnapshotModelPath(Prefix(), 10);
  const std::string manifest = SnapshotManifestPath(Prefix(), 10);
  const auto fault = [](const std::string& path) {
    const auto files = FilesOfSnapshot(path);
    return files.ok() ? "" : StatusCodeName(files.status().code()) + (": " + files.status().message());
  };
  EXPECT_EQ(fault(state), "not found: " + state + ": no such file, nor " + state + ".h5, nor a manifest " + manifest +
                              " that names parts of a snapshot");
  Write(10, Mark(1, 1000));
  EXPECT_THAT(FilesOfSnapshot(state).value(), ElementsAre(state, model, manifest));
  EXPECT_EQ(fault(state + ".h5"), "not found: " + state + ".h5: no such file, nor a manifest " + manifest +
                                      " that names parts of a snapshot");
  fs::rename(model, model + ".away");
  EXPECT_EQ(fault(state), "not found: " + model + ": no such file, and " + state + " needs it");
  fs::rename(model + ".away", model);
  fs::rename(manifest, manifest + ".away");
  EXPECT_EQ(fault(state),
            "data loss: " + state + ": the snapshot is not complete: its manifest " + manifest + " is missing");
  // A manifest of another state, as of one that was renamed.
  fs::copy(manifest + ".away", SnapshotManifestPath(Prefix(), 20));
  fs::copy(state, SnapshotStatePath(Prefix(), 20));
  EXPECT_THAT(fault(SnapshotStatePath(Prefix(), 20)), StartsWith("data loss: "));
}

TEST_F(SnapshotFolderTest, FilesOfCaffesOwn) {
  const std::string state = folder_ + "/old.solverstate";
  Write(10, Mark(1, 1000));
  caffe::SolverState proto;
  proto.set_iter(10);
  for (int i = 0; i < 3; ++i) proto.add_history()->add_data(1.0f);
  const auto write = [&](const std::string& model) {
    proto.set_learned_net(model);
    std::ofstream file(state, std::ios::binary);
    ASSERT_TRUE(proto.SerializeToOstream(&file));
  };
  write("/home/somebody/net_iter_10.caffemodel");  // what lies beside the state counts more
  EXPECT_THAT(FilesOfSnapshot(state).value(), ElementsAre(state, SnapshotModelPath(Prefix(), 10)));
  fs::create_directory(folder_ + "/else");
  fs::rename(SnapshotModelPath(Prefix(), 10), folder_ + "/else/m.caffemodel");
  write(folder_ + "/else/m.caffemodel");
  EXPECT_THAT(FilesOfSnapshot(state).value(), ElementsAre(state, folder_ + "/else/m.caffemodel"));
  const auto bytes = fs::file_size(state);
  for (const uintmax_t size : {uintmax_t{0}, uintmax_t{1}, bytes / 2, bytes - 1}) {
    fs::resize_file(state, size);
    EXPECT_EQ(FilesOfSnapshot(state).status().code(), StatusCode::kDataLoss) << size;
    write(folder_ + "/else/m.caffemodel");
  }
}

TEST_F(SnapshotFolderTest, FilesOfOneInHdf5) {
  if (const Status hdf5 = CheckHdf5(); !hdf5.ok()) GTEST_SKIP() << "SKIPPED: " << hdf5;
  most_message_bytes_ = 10;
  Write(10, Mark(1, 1000));
  const std::string state = SnapshotStatePath(Prefix(), 10), model = SnapshotModelPath(Prefix(), 10) + ".h5";
  const std::string manifest = SnapshotManifestPath(Prefix(), 10);
  for (const std::string& path : {state, state + ".h5"}) {
    EXPECT_THAT(FilesOfSnapshot(path).value(), ElementsAre(state + ".h5", model, manifest)) << path;
  }
  fs::remove(manifest);  // as of Caffe, but for the state's word
  EXPECT_THAT(FilesOfSnapshot(state).status().message(), HasSubstr("its manifest " + manifest + " is missing"));
}

// hplaunch finds the snapshots of a job in the logs of its nodes.
TEST(SnapshotLines, NameTheManifest) {
  EXPECT_EQ(ModelLine("/s/a_iter_5.caffemodel"), "Snapshotting to binary proto file /s/a_iter_5.caffemodel");
  EXPECT_EQ(ModelLine("/s/a_iter_5.caffemodel.h5"), "Snapshotting to HDF5 file /s/a_iter_5.caffemodel.h5");
  const std::string glog = "I1125 10:49:47.163280 27039 snapshot_writer.cc:130] ";
  for (const char* end : {".caffemodel", ".caffemodel.h5"}) {
    const std::string path = std::string("/my runs/v1.5/a_iter_5") + end;
    EXPECT_EQ(ManifestOfLine(glog + ModelLine(path)), "/my runs/v1.5/a_iter_5.hpnode") << path;
  }
  EXPECT_EQ(ManifestOfLine(glog + StateLine("/s/a_iter_5.solverstate")), std::nullopt);
  EXPECT_EQ(ManifestOfLine(glog + StateLine("/s/a_iter_5.solverstate.h5")), std::nullopt);
  EXPECT_EQ(ManifestOfLine("a node says: " + ModelLine("/s/a_iter_5.caffemodel")), std::nullopt) << "no line of glog's";
  EXPECT_EQ(ManifestOfLine(""), std::nullopt);
}

}  // namespace
}  // namespace hp
