#include "checkpoint/snapshot.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hdf5/hdf5_api.h"
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A net of two layers with three parameters, the last one frozen.
class SnapshotTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_snapshot_XXXXXX";
    folder_ = mkdtemp(name);
    net_.set_name("test");
    AddLayer("data", "Data");
    AddLayer("conv1", "Convolution");
    AddLayer("fc", "InnerProduct");
    Fill(1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void AddLayer(const char* name, const char* type) {
    caffe::LayerParameter* layer = net_.add_layer();
    layer->set_name(name);
    layer->set_type(type);
  }
  void Fill(float first) {
    std::iota(values_.begin(), values_.end(), first);
    std::iota(history_.begin(), history_.end(), -first);
  }
  SnapshotContents Contents(int64_t iteration) const {
    SnapshotContents contents;
    contents.prefix = folder_ + "/net";
    contents.iteration = iteration;
    contents.current_step = 3;
    contents.net = &net_;
    contents.params = {{"conv1", 0, {2, 3, 2, 2}, {{{values_.data()}, {history_.data()}}}},
                       {"conv1", 1, {2}, {{{values_.data() + 24}, {history_.data() + 24}}}},
                       {"fc", 0, {5, 4}, {{{values_.data() + 26}}}}};
    contents.manifest.set_random_seed(42);
    contents.manifest.set_net_hash(0xFEDCBA9876543210u);
    contents.manifest.add_node()->set_name("conv0");
    return contents;
  }
  Status Write(int64_t iteration) {
    auto pending = PrepareSnapshot(Contents(iteration));
    return pending.ok() ? (*pending)->Commit() : pending.status();
  }
  StatusOr<LoadedSnapshot> Read(int64_t iteration) const {
    return ReadSnapshot(SnapshotStatePath(folder_ + "/net", iteration), Contents(iteration).params);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  caffe::NetParameter net_;
  std::vector<float> values_ = std::vector<float>(46), history_ = std::vector<float>(46);
};

void ExpectValues(const Blob* blob, const Shape& shape, const float* values) {
  ASSERT_NE(blob, nullptr);
  EXPECT_EQ(blob->shape, shape);
  EXPECT_EQ(blob->data, std::vector<float>(values, values + shape.count()));
}

TEST_F(SnapshotTest, ComesBackAsItWas) {
  ASSERT_TRUE(Write(100).ok());
  EXPECT_THAT(Files(),
              UnorderedElementsAre("net_iter_100.caffemodel", "net_iter_100.solverstate", "net_iter_100.hpnode"));
  const auto snapshot = Read(100);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->iteration, 100);
  EXPECT_EQ(snapshot->current_step, 3);
  ExpectValues(snapshot->model.Find("conv1", 0), {2, 3, 2, 2}, values_.data());
  ExpectValues(snapshot->model.Find("conv1", 1), {2}, values_.data() + 24);
  ExpectValues(snapshot->model.Find("fc", 0), {5, 4}, values_.data() + 26);
  ExpectValues(&snapshot->histories.at({"conv1", 0})[0], {2, 3, 2, 2}, history_.data());
  EXPECT_THAT(snapshot->histories.at({"fc", 0})[0].data, testing::Each(0.f));
  ASSERT_TRUE(snapshot->manifest.has_value());
  EXPECT_EQ(snapshot->manifest->random_seed(), 42);
  EXPECT_EQ(snapshot->manifest->net_hash(), 0xFEDCBA9876543210u);
  EXPECT_EQ(snapshot->manifest->node(0).name(), "conv0");
}

TEST_F(SnapshotTest, ProtobufReadsTheStateAsCaffeWould) {
  ASSERT_TRUE(Write(7).ok());
  std::ifstream file(Path("net_iter_7.solverstate"), std::ios::binary);
  caffe::SolverState state;
  ASSERT_TRUE(state.ParseFromIstream(&file));
  EXPECT_EQ(state.iter(), 7);
  EXPECT_EQ(state.learned_net(), Path("net_iter_7.caffemodel"));
  EXPECT_EQ(state.current_step(), 3);
  ASSERT_EQ(state.history_size(), 3);
  EXPECT_THAT(state.history(0).shape().dim(), testing::ElementsAre(2, 3, 2, 2));
  EXPECT_EQ(state.history(1).data(1), history_[25]);
  EXPECT_EQ(state.history(2).data_size(), 20);
}

// As Caffe has them: all of a layer's blobs with the layer, a history once for each parameter.
TEST_F(SnapshotTest, SharedParametersStandWithEachLayerAndHaveOneHistory) {
  AddLayer("fc_p", "InnerProduct");
  SnapshotContents contents = Contents(7);
  contents.params[2].users = {{"fc_p", 0, {4, 5}}};
  ASSERT_TRUE((*PrepareSnapshot(contents))->Commit().ok());
  std::ifstream model_file(Path("net_iter_7.caffemodel"), std::ios::binary);
  caffe::NetParameter model;
  ASSERT_TRUE(model.ParseFromIstream(&model_file));
  ASSERT_EQ(model.layer_size(), 4);
  ASSERT_EQ(model.layer(3).blobs_size(), 1);
  EXPECT_THAT(model.layer(3).blobs(0).shape().dim(), testing::ElementsAre(4, 5)) << "the user's shape";
  EXPECT_THAT(model.layer(3).blobs(0).data(), testing::ElementsAreArray(model.layer(2).blobs(0).data()));
  std::ifstream state_file(Path("net_iter_7.solverstate"), std::ios::binary);
  caffe::SolverState state;
  ASSERT_TRUE(state.ParseFromIstream(&state_file));
  EXPECT_EQ(state.history_size(), 3);
  const auto read = ReadSnapshot(SnapshotStatePath(contents.prefix, 7), contents.params);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectValues(read->model.Find("fc", 0), {5, 4}, values_.data() + 26);
}

TEST_F(SnapshotTest, NothingIsThereBeforeCommitAndNothingIsLeftWithoutIt) {
  {
    const auto pending = PrepareSnapshot(Contents(100));
    ASSERT_TRUE(pending.ok());
    EXPECT_EQ(Read(100).status().code(), StatusCode::kNotFound);
  }
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(SnapshotTest, OfAStartThatHasASuccessorItIsDropped) {
  SnapshotContents contents = Contents(100);
  const auto first = Incarnation::Claim(contents.prefix);
  ASSERT_TRUE(first.ok()) << first.status();
  contents.incarnation = first->get();
  auto pending = PrepareSnapshot(contents);
  ASSERT_TRUE(pending.ok()) << pending.status();
  EXPECT_TRUE(fs::exists(Path("net_iter_100.caffemodel.1.tmp")));
  ASSERT_TRUE((*pending)->Commit().ok());

  auto late = PrepareSnapshot(contents);  // stopped here, and a successor begins and writes the same iteration
  ASSERT_TRUE(late.ok()) << late.status();
  const auto second = Incarnation::Claim(contents.prefix);
  ASSERT_TRUE(second.ok()) << second.status();
  contents.incarnation = second->get();
  Fill(7);
  auto succeeding = PrepareSnapshot(contents);
  ASSERT_TRUE(succeeding.ok() && (*succeeding)->Commit().ok());
  EXPECT_EQ((*late)->Commit().code(), StatusCode::kFailedPrecondition);
  late = std::unique_ptr<PendingSnapshot>();
  const auto loaded = Read(100);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectValues(loaded->model.Find("conv1", 1), {2}, values_.data() + 24);
  EXPECT_THAT(Files(), UnorderedElementsAre("net_iter_100.caffemodel", "net_iter_100.solverstate",
                                            "net_iter_100.hpnode", "net_start_2"));
}

TEST_F(SnapshotTest, MovesToAnotherFolder) {
  ASSERT_TRUE(Write(100).ok());
  const std::string moved = folder_ + "/moved";
  fs::create_directory(moved);
  for (const char* extension : {"caffemodel", "solverstate", "hpnode"}) {
    const std::string name = std::string("/net_iter_100.") + extension;
    fs::rename(folder_ + name, moved + name);
  }
  const auto snapshot = ReadSnapshot(moved + "/net_iter_100.solverstate", Contents(100).params);
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
}

TEST_F(SnapshotTest, ReadsCaffesOwn) {
  ASSERT_TRUE(Write(100).ok());
  fs::rename(Path("net_iter_100.caffemodel"), Path("old.caffemodel"));
  caffe::SolverState state;
  state.set_iter(33);
  state.set_learned_net("/home/somebody/caffe/old.caffemodel");
  for (int count : {24, 2, 20}) {
    caffe::BlobProto* history = state.add_history();
    for (int i = 0; i < count; ++i) history->add_data(0.5f * i);
  }
  for (int dim : {2, 3, 2, 2}) state.mutable_history(0)->mutable_shape()->add_dim(dim);
  // As Caffe wrote them before 2014.
  caffe::BlobProto* bias = state.mutable_history(1);
  bias->set_num(1), bias->set_channels(1), bias->set_height(1), bias->set_width(2);
  caffe::BlobProto* weights = state.mutable_history(2);
  weights->set_num(1), weights->set_channels(1), weights->set_height(5), weights->set_width(4);
  std::ofstream file(Path("old.solverstate"), std::ios::binary);
  ASSERT_TRUE(state.SerializeToOstream(&file));
  file.close();
  const auto snapshot = ReadSnapshot(Path("old.solverstate"), Contents(0).params);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->iteration, 33);
  EXPECT_FALSE(snapshot->manifest.has_value());
  EXPECT_EQ(snapshot->histories.at({"fc", 0})[0].data[19], 9.5f);
  fs::remove(Path("old.caffemodel"));
  EXPECT_EQ(ReadSnapshot(Path("old.solverstate")).status().message(),
            "/home/somebody/caffe/old.caffemodel: no such file, and " + Path("old.solverstate") + " needs it");
}

TEST_F(SnapshotTest, RefusesAnIterationBelow0) {
  for (int iteration : {-1, std::numeric_limits<int>::min()}) {
    caffe::SolverState state;
    state.set_iter(iteration);
    state.set_learned_net("net.caffemodel");
    std::ofstream file(Path("below.solverstate"), std::ios::binary);
    ASSERT_TRUE(state.SerializeToOstream(&file));
    file.close();
    const Status status = ReadSnapshot(Path("below.solverstate"), Contents(0).params).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("expected at least 0"));
  }
}

TEST_F(SnapshotTest, RefusesChangedTruncatedAndIncompleteOnes) {
  ASSERT_TRUE(Write(1).ok());
  {
    std::fstream file(Path("net_iter_1.caffemodel"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('\x55');
  }
  EXPECT_EQ(Read(1).status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Read(1).status().message(), HasSubstr("net_iter_1.caffemodel"));

  ASSERT_TRUE(Write(2).ok());
  fs::resize_file(Path("net_iter_2.solverstate"), 40);
  EXPECT_EQ(Read(2).status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Read(2).status().message(), HasSubstr("net_iter_2.solverstate"));

  ASSERT_TRUE(Write(3).ok());
  fs::remove(Path("net_iter_3.hpnode"));
  EXPECT_EQ(Read(3).status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Read(3).status().message(), HasSubstr("not complete"));

  ASSERT_TRUE(Write(4).ok());
  fs::remove(Path("net_iter_4.caffemodel"));
  EXPECT_EQ(Read(4).status().code(), StatusCode::kNotFound);

  ASSERT_TRUE(Write(5).ok());
  fs::copy_file(Path("net_iter_5.solverstate"), Path("net_iter_6.solverstate"));
  fs::copy_file(Path("net_iter_5.hpnode"), Path("net_iter_6.hpnode"));
  EXPECT_EQ(Read(6).status().code(), StatusCode::kDataLoss);
}

TEST_F(SnapshotTest, RefusesAnotherNets) {
  ASSERT_TRUE(Write(1).ok());
  const std::string state = SnapshotStatePath(folder_ + "/net", 1);
  auto params = Contents(1).params;
  params[2].shape = {4, 5};
  Status status = ReadSnapshot(state, params).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("layer \"fc\" blob 0 has shape \"5 4\"; expected \"4 5\""));
  params = Contents(1).params;
  params[0].layer = "conv2";
  EXPECT_THAT(ReadSnapshot(state, params).status().message(), HasSubstr("no blob 0 of layer \"conv2\""));
  params = Contents(1).params;
  params.pop_back();
  EXPECT_THAT(ReadSnapshot(state, params).status().message(), HasSubstr("3 histories; expected 2, 1 of each"));
}

/// As Caffe's AdaDelta and Adam have them: all parameters' first histories, then all second ones.
TEST_F(SnapshotTest, SecondHistoriesStandBehindAllFirstOnes) {
  SnapshotContents contents = Contents(7);
  contents.manifest.set_histories(2);
  contents.params[0].arrays[2].data = values_.data() + 5;
  contents.params[2].arrays[2].data = history_.data() + 3;
  for (const int64_t most : {kMostMessageBytes, int64_t{0}}) {  // a message, HDF5
    if (most == 0 && !CheckHdf5().ok()) continue;
    contents.most_message_bytes = most;
    auto pending = PrepareSnapshot(contents);
    ASSERT_TRUE(pending.ok() && (*pending)->Commit().ok()) << pending.status();
    const std::string state = SnapshotStatePath(folder_ + "/net", 7) + (most == 0 ? ".h5" : "");
    const auto in_order = ReadSnapshot(state);
    ASSERT_TRUE(in_order.ok()) << in_order.status();
    ASSERT_EQ(in_order->file_histories.size(), 6u);
    ExpectValues(&in_order->file_histories[0], {2, 3, 2, 2}, history_.data());
    ExpectValues(&in_order->file_histories[3], {2, 3, 2, 2}, values_.data() + 5);
    ExpectValues(&in_order->file_histories[5], {5, 4}, history_.data() + 3);
    const auto snapshot = ReadSnapshot(state, contents.params, 2);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    std::vector<float> row(2), none(2, 1.0f);
    ASSERT_TRUE(snapshot->CopyArray("fc", 0, 2, {5, 4}, {2, 3, 1, 3}, row).ok());
    EXPECT_EQ(row, std::vector<float>(history_.data() + 12, history_.data() + 14));
    ASSERT_TRUE(snapshot->CopyArray("conv1", 1, 2, {2}, Block::Whole({2}), none).ok());
    EXPECT_THAT(none, testing::Each(0.f));
    const Status one = ReadSnapshot(state, contents.params, 1).status();
    EXPECT_EQ(one.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(one.message(), HasSubstr("6 histories; expected 3, 1 of each"));
  }
}

TEST(MostMessageBytes, FollowsFromTheSolver) {
  caffe::SolverParameter solver;
  EXPECT_EQ(MostMessageBytes(solver), kMostMessageBytes);
  solver.set_type("Adam");
  EXPECT_EQ(MostMessageBytes(solver), kMostMessageBytes / 2);
  solver.set_snapshot_format(caffe::SolverParameter::HDF5);
  EXPECT_EQ(MostMessageBytes(solver), -1);
}

TEST_F(SnapshotTest, AMissingFolderIsNamed) {
  SnapshotContents contents = Contents(1);
  contents.prefix = folder_ + "/missing/net";
  const Status status = PrepareSnapshot(contents).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("/missing does not exist"));
}

// Ends a child process before step `at` of a snapshot. @return false: there are fewer steps.
bool KillBeforeStep(SnapshotContents contents, int at) {
  const pid_t child = fork();
  if (child == 0) {
    int step = 0;
    contents.before_step = [&](const std::string&) {
      if (step++ == at) raise(SIGKILL);
    };
    auto pending = PrepareSnapshot(contents);
    const bool done = pending.ok() && (*pending)->Commit().ok();
    _exit(done ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

TEST_F(SnapshotTest, AKillLeavesItCompleteOrAbsentAndTheEarlierOneWhole) {
  ASSERT_TRUE(Write(50).ok());
  int kills = 0, complete = 0;
  while (KillBeforeStep(Contents(100), kills)) {
    ++kills;
    EXPECT_TRUE(Read(50).ok()) << "killed before step " << kills;
    const auto snapshot = Read(100);
    if (snapshot.ok()) {
      ++complete;
      ExpectValues(snapshot->model.Find("fc", 0), {5, 4}, values_.data() + 26);
    }
    for (const std::string& name : Files()) {
      if (name.find("_100.") != std::string::npos) fs::remove(Path(name));
    }
  }
  EXPECT_EQ(kills, 11);    // 3 files written; 2 removals, sync; 2 renames, sync; the manifest's rename, sync
  EXPECT_EQ(complete, 1);  // before the last sync
}

// The same iteration again, after a resume from an earlier one: never a mixture.
TEST_F(SnapshotTest, AKillWhileReplacingLeavesOldNewOrNone) {
  int kills = 0;
  for (bool killed = true; killed; ++kills) {
    Fill(1);
    const std::vector<float> old_values = values_;
    ASSERT_TRUE(Write(100).ok());
    Fill(1000);
    killed = KillBeforeStep(Contents(100), kills);
    const auto snapshot = Read(100);
    if (!snapshot.ok()) continue;
    const bool is_new = snapshot->model.Find("conv1", 1)->data[0] == values_[24];
    const std::vector<float>& expected = is_new ? values_ : old_values;
    ExpectValues(snapshot->model.Find("conv1", 0), {2, 3, 2, 2}, expected.data());
    ExpectValues(snapshot->model.Find("fc", 0), {5, 4}, expected.data() + 26);
    EXPECT_EQ(snapshot->histories.at({"conv1", 1})[0].data[0], is_new ? -1000 + 24 : -1 + 24);
    EXPECT_TRUE(killed || is_new);
  }
  EXPECT_EQ(kills, 12);  // 11, and the run that nothing stopped
}

class FullDiskTest : public SnapshotTest {
 protected:
  void SetUp() override {
    SnapshotTest::SetUp();
    if (mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "cannot mount a tmpfs: not root";
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) umount(folder_.c_str());
    SnapshotTest::TearDown();
  }
  bool mounted_ = false;
};

TEST_F(FullDiskTest, LeavesTheEarlierSnapshotAndNothingElse) {
  ASSERT_TRUE(Write(50).ok());
  std::vector<float> big(8 << 10, 1.0f);  // 32 KiB: the model fits, the state does not
  SnapshotContents contents = Contents(100);
  contents.params[2] = {"fc", 0, {8 << 10}, {{{big.data()}, {big.data()}}}};
  const Status status = PrepareSnapshot(contents).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr("net_iter_100"));
  EXPECT_THAT(Files(), UnorderedElementsAre("net_iter_50.caffemodel", "net_iter_50.solverstate", "net_iter_50.hpnode"));
  EXPECT_TRUE(Read(50).ok());
}

// Without root: the limit on file size stands in for the disk.
TEST_F(SnapshotTest, AFileThatCannotGrowIsNoSnapshot) {
  ASSERT_TRUE(Write(50).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = PrepareSnapshot(Contents(100)).status();
    _exit(status.code() == StatusCode::kResourceExhausted ? 0 : 1);
  }
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_TRUE(Read(50).ok());
}

}  // namespace
}  // namespace hp
