// What a run leaves in its folder.
#include "run_folder/run_folder.h"

#include "base/pending_file.h"
#include "proto/text.h"
#include "test/support/failing_locks.h"

#include "run_folder/rotating_log.h"
#include "run_folder/run_files.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace hp {
namespace {

/// A net as Caffe knows it.
std::string WithoutPlaces(caffe::NetParameter net) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) layer.clear_place();
  return net.SerializeAsString();
}

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hp-run-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) { ASSERT_TRUE(WriteWholeFile(Path(name), text).ok()); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(RunTest, OneAtATimeHasAFolder) {
  {
    const auto first = RunFolder::Open(Path("run"));
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(RunFolder::Open(Path("run")).status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(RunFolder::Open(Path("run")).ok());
}

TEST_F(RunTest, FilesOfSomebodysOwnAreNotReplaced) {
  std::filesystem::create_directory(Path("run"));
  std::ofstream(Path("run/table.prototxt")) << "# mine";
  const Status refused = RunFolder::Open(Path("run")).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("/table.prototxt is there, and no run wrote it"), std::string::npos) << refused;
  // As an agent leaves a folder, on a host that has no record.
  std::ofstream(Path("run/solver.prototxt")) << "# Written by hplaunch.\n";
  EXPECT_TRUE(RunFolder::Open(Path("run")).ok());
}

TEST_F(RunTest, IncarnationsCountOnInALaterRun) {
  for (const int begin : {1, 3}) {
    const auto run = RunFolder::Open(Path("run"));
    ASSERT_TRUE(run.ok());
    EXPECT_EQ((*run)->BeginIncarnation(), begin);
    (*run)->Record("a node said: incarnation 700");
    EXPECT_EQ((*run)->BeginIncarnation(), begin + 1);
  }
}

TEST_F(RunTest, ALineThatWasCutOffEndsBeforeTheNext) {
  const auto run = RunFolder::Open(Path("run"));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ((*run)->BeginIncarnation(), 1);
  std::ofstream(Path("run/record.txt"), std::ios::app) << "2026-11-24 22:15:02 incarn";
  EXPECT_EQ((*run)->BeginIncarnation(), 2);
  EXPECT_EQ((*run)->BeginIncarnation(), 3) << "the line of the second was read";
  EXPECT_THAT(Read(Path("run/record.txt")), testing::MatchesRegex(".* incarnation 1\n2026-11-24 22:15:02 incarn\n"
                                                                  ".* incarnation 2\n.* incarnation 3\n"));
}

TEST_F(RunTest, ADiskWithoutLocks) {
  const test::FailingLocks failing(ENOLCK);
  const Status status = RunFolder::Open(Path("run")).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("run/record.txt: cannot be locked (No locks available)"));
}

TEST_F(RunTest, LogsOfOldIncarnationsGo) {
  const auto run = RunFolder::Open(Path("run"));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ((*run)->LogPath("conv0", 3), Path("run/logs/conv0.3.log"));
  Write("run/logs/conv0.1.log", "");
  Write("run/logs/conv0.1.log.2", "");
  Write("run/logs/conv0.2.log", "");
  for (int i = 1; i <= 9; ++i) EXPECT_EQ((*run)->BeginIncarnation(), i);
  EXPECT_FALSE(fs::exists(Path("run/logs/conv0.1.log")));
  EXPECT_FALSE(fs::exists(Path("run/logs/conv0.1.log.2")));
  EXPECT_TRUE(fs::exists(Path("run/logs/conv0.2.log")));
}

TEST_F(RunTest, ALogRotates) {
  {
    RotatingLog log(Path("log"), 10);
    for (const char* line : {"1234", "5678", "abcd", "a line longer than a file", "last"})
      EXPECT_TRUE(log.Add(line).ok());
  }
  EXPECT_EQ(Read(Path("log")), "last\n");
  EXPECT_EQ(Read(Path("log.1")), "a line longer than a file\n");
  EXPECT_EQ(Read(Path("log.2")), "abcd\n");
  EXPECT_EQ(Read(Path("log.3")), "1234\n5678\n");
  RotatingLog log(Path("log"), 10);
  EXPECT_TRUE(log.Add("again").ok());
  EXPECT_EQ(Read(Path("log.1")), "last\n");
  EXPECT_FALSE(fs::exists(Path("log.4")));
}

TEST_F(RunTest, ALogThatCannotBeWritten) {
  const Status nowhere = RotatingLog(Path("none/log")).Add("line");
  EXPECT_EQ(nowhere.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(nowhere.message(), Path("none/log") + ": No such file or directory");
  const Status full = RotatingLog("/dev/full").Add("line");
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "/dev/full: No space left on device");
}

constexpr char kNet[] = R"(name: "n"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { mean_file: "mean" }
        data_param { source: "/data/train/" batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
)";

TEST_F(RunTest, FilesThatDoNotDependOnTheWorkingFolder) {
  Write("net.prototxt", kNet);
  Write("solver.prototxt", "net: \"net.prototxt\" base_lr: 0.1 snapshot_prefix: \"some/where/tiny\"");
  RoutingTableConfig table;
  table.set_solver("somewhere/solver.prototxt");
  StatusOr<RunFiles> files = ReadRunFiles(table, Path("solver.prototxt"), Path("run"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->table.solver(), "solver.prototxt");
  EXPECT_EQ(files->solver.net(), Path("run/net.prototxt"));
  EXPECT_EQ(files->solver.snapshot_prefix(), Path("run/snapshots/tiny"));
  EXPECT_EQ(files->data, (std::vector<std::string>{"/data/train", fs::absolute("mean").string()}));
  ASSERT_TRUE(fs::create_directory(Path("run")));
  ASSERT_TRUE(WriteRunFiles(*files, Path("run"), "hplaunch").ok());
  for (const caffe::LayerParameter& layer : files->net.layer()) EXPECT_EQ(layer.place_size(), 0) << "Caffe knows none";
  const auto again = ReadSolver(Path("run/solver.prototxt"));
  ASSERT_TRUE(again.ok()) << again.status();
  const auto net = NetOfSolver(*again);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(WithoutPlaces(*net), WithoutPlaces(files->net));
}

/// To the bit, so that no node needs its file.
TEST_F(RunTest, TheMatrixOfALossGoesWithTheNet) {
  caffe::BlobProto gains;
  for (const float gain : {0.1f, 1.0f / 3, -1e-30f, 16777215.0f}) gains.add_data(gain);
  Write("gains", gains.SerializeAsString());
  Write("net.prototxt", std::string(kNet) +
                            R"(layer { name: "loss" type: "InfogainLoss" bottom: "ip" bottom: "label" top: "loss"
        infogain_loss_param { source: ")" +
                            Path("gains") + "\" } }");
  Write("solver.prototxt", "net: \"net.prototxt\" base_lr: 0.1");
  const StatusOr<RunFiles> files = ReadRunFiles({}, Path("solver.prototxt"), Path("run"));
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_TRUE(fs::create_directory(Path("run")));
  ASSERT_TRUE(WriteRunFiles(*files, Path("run"), "hplaunch").ok());
  ASSERT_TRUE(fs::remove(Path("gains")));
  const auto again = ReadSolver(Path("run/solver.prototxt"));
  ASSERT_TRUE(again.ok()) << again.status();
  const auto net = NetOfSolver(*again);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(WithoutPlaces(*net), WithoutPlaces(files->net));
  EXPECT_EQ(net->layer(2).infogain_loss_param().matrix().data(1), 1.0f / 3);
}

TEST_F(RunTest, ListsOfImages) {
  Write("solver.prototxt", R"(net_param { layer { name: "data" type: "ImageData" top: "data" top: "label"
        image_data_param { source: "lists/train.txt" root_folder: "images/" } } })");
  const StatusOr<RunFiles> files = ReadRunFiles({}, Path("solver.prototxt"), Path("run"));
  ASSERT_TRUE(files.ok()) << files.status();
  const caffe::ImageDataParameter& images = files->net.layer(0).image_data_param();
  EXPECT_EQ(images.source(), fs::absolute("lists/train.txt").string());
  EXPECT_EQ(images.root_folder(), fs::absolute("images/").string()) << "names follow it as it is";
  EXPECT_EQ(files->lists, (std::vector<std::string>{images.source()}));
  EXPECT_TRUE(files->data.empty());
}

TEST_F(RunTest, ListsOfHdf5Files) {
  Write("solver.prototxt", R"(net_param { layer { name: "data" type: "HDF5Data" top: "data" top: "label"
        hdf5_data_param { source: "lists/train.txt" batch_size: 2 } } })");
  const StatusOr<RunFiles> files = ReadRunFiles({}, Path("solver.prototxt"), Path("run"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->net.layer(0).hdf5_data_param().source(), fs::absolute("lists/train.txt").string());
  EXPECT_EQ(files->lists, (std::vector<std::string>{fs::absolute("lists/train.txt").string()}));
}

TEST_F(RunTest, WithoutAPrefixItIsTheSolversName) {
  for (const char* prefix : {"", "snapshot_prefix: \"some/where/\""}) {
    Write("lenet.prototxt", std::string(prefix) + " net_param { " + kNet + "}");
    const StatusOr<RunFiles> files = ReadRunFiles({}, Path("lenet.prototxt"), Path("run"));
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(files->solver.snapshot_prefix(), Path("run/snapshots/lenet")) << prefix;
  }
}

TEST_F(RunTest, AnAbsolutePrefixStays) {
  Write("solver.prototxt", std::string("snapshot_prefix: \"/snapshots/x\" net_param { ") + kNet + "}");
  const StatusOr<RunFiles> files = ReadRunFiles({}, Path("solver.prototxt"), Path("run"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->solver.snapshot_prefix(), "/snapshots/x");
  EXPECT_FALSE(files->solver.has_net_param()) << "it is a file of its own";
}

TEST_F(RunTest, FilesOfADatabase) {
  fs::create_directories(Path("db/below"));
  Write("db/000003.log", "");
  Write("db/LOCK", "");
  Write("db/below/x", "");
  EXPECT_EQ(*FilesBelow(Path("db")), (std::vector<std::string>{Path("db/000003.log"), Path("db/below/x")}));
  EXPECT_EQ(*FilesBelow(Path("db/LOCK")), (std::vector<std::string>{Path("db/LOCK")}));
  EXPECT_EQ(FilesBelow(Path("none")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace hp
