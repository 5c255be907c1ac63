#include "checkpoint/hdf5_file.h"

#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_names.h"
#include "proto/layer_names.h"
#include "test/support/write_hdf5.h"

#include "hdf5/hdf5_api.h"
#include "hdf5/hdf5_handle.h"
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

namespace hp {
namespace {

class Hdf5FileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status hdf5 = CheckHdf5(); !hdf5.ok()) GTEST_SKIP() << "SKIPPED: " << hdf5;
    char name[] = "/tmp/hp_hdf5_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
#ifdef HP_WITH_HDF5
  /// Adds a dataset without values to a group of a file. @param type by the library's functions.
  template <typename Type>
  static void AddSet(const std::string& path, const char* group, const char* name, const std::vector<hsize_t>& dims,
                     const Type& type) {
    const Hdf5Lock lock;
    ASSERT_TRUE(lock.api().ok());
    const Hdf5Api& api = **lock.api();
    const Hdf5Handle file(api.open_file(path.c_str(), 0x0001u, 0), api.close_file);  // H5F_ACC_RDWR
    const Hdf5Handle in(api.open_group(file.id(), group, 0), api.close_group);
    const Hdf5Handle space(api.create_space(static_cast<int>(dims.size()), dims.data(), nullptr), api.close_space);
    const Hdf5Handle set(api.create_dataset(in.id(), name, type(api), space.id(), 0, 0, 0), api.close_dataset);
    ASSERT_TRUE(set.ok());
  }
#endif

  std::string folder_;
};

// A source may take its time, or use the library itself: another thread's file is written meanwhile.
TEST_F(Hdf5FileTest, OtherFilesAreWrittenWhileASourceIsAsked) {
  const std::vector<float> other(6, 2.0F);
  BlobRefs others, blobs;
  others[{"fc", 0}] = BlobRef{Shape({2, 3}), other.data()};
  int asked = 0;
  BlobRef slow{Shape({3, 1 << 20}), nullptr};  // 12 MiB, in three pieces
  slow.source = [&](int64_t offset, std::span<char> piece) {
    const std::string path = folder_ + "/other" + std::to_string(asked++) + ".h5";
    std::future<Status> written = std::async(std::launch::async, [&] { return WriteHdf5Model(path, others); });
    EXPECT_EQ(written.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "the library is held";
    EXPECT_TRUE(ReadHdf5Model(folder_ + "/other0.h5").ok());
    EXPECT_FALSE(ReadHdf5Model(folder_ + "/missing.h5").ok()) << "errno is ENOENT";
    const std::vector<float> values(piece.size() / sizeof(float), static_cast<float>(offset >> 22));
    std::memcpy(piece.data(), values.data(), piece.size());
    return OkStatus();
  };
  blobs[{"conv", 0}] = slow;
  ASSERT_TRUE(WriteHdf5Model(folder_ + "/model.h5", blobs).ok());
  EXPECT_EQ(asked, 3);
  const StatusOr<CaffeModel> model = ReadHdf5Model(folder_ + "/model.h5");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<float>& data = model->blobs.at({"conv", 0}).data;
  ASSERT_EQ(data.size(), size_t{3} << 20);
  for (size_t row = 0; row < 3; ++row) EXPECT_EQ(data[(row << 20) + 5], static_cast<float>(row));
}

/// As Caffe, which asks the file.
TEST_F(Hdf5FileTest, IsKnownWhateverItsName) {
  const std::vector<float> values = {1, 2};
  const std::string hdf5 = folder_ + "/weights.caffemodel";
  ASSERT_TRUE(WriteHdf5Model(hdf5, {{{"fc", 0}, {{2}, values.data()}}}).ok());
  EXPECT_TRUE(IsHdf5File(hdf5));
  const auto model = ReadCaffeModel(hdf5);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->blobs.at({"fc", 0}).data, values);

  const std::string other = folder_ + "/other";
  std::ofstream(other) << std::string(512, 'x') + "\x89HDF\r\n\x1a\n";
  EXPECT_TRUE(IsHdf5File(other)) << "behind a user's block";
  std::ofstream(other) << "\x89HDF";
  EXPECT_FALSE(IsHdf5File(other));
  EXPECT_FALSE(IsHdf5File(folder_ + "/missing"));
  EXPECT_TRUE(IsHdf5File(folder_ + "/missing.h5"));
}

/// What is written under a name of HDF5's is HDF5, or nothing.
TEST_F(Hdf5FileTest, IsWrittenWhereTheNameSaysSo) {
  const std::string path = folder_ + "/weights.caffemodel.h5";
  const std::vector<float> values = {1, 2};
  caffe::NetParameter net;
  net.add_layer()->set_name("fc");
  ASSERT_TRUE(WriteCaffeModel(path, net, {{{"fc", 0}, {{2}, values.data()}}}).ok());
  const auto model = ReadHdf5Model(path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->blobs.at({"fc", 0}).data, values);
  net.mutable_layer(0)->set_name("/fc");
  const Status status = WriteCaffeModel(path, net, {{{"/fc", 0}, {{2}, values.data()}}});
  EXPECT_EQ(status.message(),
            path +
                ": layer \"/fc\": in an HDF5 file a name is a path of up to 64 parts, and this is none; "
                "expected another name, or a .caffemodel");
  EXPECT_TRUE(ReadHdf5Model(path).ok()) << "as it was";
  const std::string link = folder_ + "/link.caffemodel.h5";
  std::filesystem::create_symlink(path, link);
  net.mutable_layer(0)->set_name("fc");
  const std::vector<float> others = {3, 4};
  ASSERT_TRUE(WriteCaffeModel(link, net, {{{"fc", 0}, {{2}, others.data()}}}).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadHdf5Model(path)->blobs.at({"fc", 0}).data, others);
  std::filesystem::remove(link);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no temporary file is left";
}

#ifdef HP_WITH_HDF5
TEST_F(Hdf5FileTest, ABlobOfNoNumbersIsNamedWithItsLayer) {
  const std::string path = folder_ + "/model.h5";
  const float one = 1;
  ASSERT_TRUE(WriteHdf5Model(path, {{{"fc", 0}, {{1}, &one}}}).ok());
  AddSet(path, "data/fc", "1", {1}, [](const Hdf5Api& api) { return api.c_string; });
  EXPECT_EQ(ReadHdf5Model(path).status().message(),
            path + ": truncated, or not a Caffe file: dataset data/fc/1 cannot be read as numbers");
}

TEST_F(Hdf5FileTest, ABlobBeyondMemoryIsNamed) {
#ifdef HP_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow is larger than any limit of the address space";
#endif
  const std::string path = folder_ + "/model.h5";
  const float one = 1;
  ASSERT_TRUE(WriteHdf5Model(path, {{{"fc", 0}, {{1}, &one}}}).ok());
  // 2 TiB, of which nothing is written.
  AddSet(path, "data/fc", "1", {1 << 20, 1 << 19}, [](const Hdf5Api& api) { return api.native_float; });
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit some{size_t{1} << 40, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &some), 0);
  EXPECT_EQ(ReadHdf5Model(path).status().message(),
            "out of memory: " + path + ": dataset data/fc/1 of shape \"1048576 524288\"");
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}
#endif

// Equal states are equal files, whatever the clock says: hosts compare their copies.
TEST_F(Hdf5FileTest, FilesHaveNoTimes) {
  const float one = 1;
  caffe::SolverState head;
  head.set_iter(4);
  head.set_learned_net("model");
  const auto begin = static_cast<uint32_t>(time(nullptr));
  ASSERT_TRUE(WriteHdf5Model(folder_ + "/model.h5", {{{"a/fc", 0}, {{1}, &one}}}).ok());
  ASSERT_TRUE(WriteHdf5State(folder_ + "/state.h5", head, {{{1}, &one}}).ok());
  for (const char* const name : {"/model.h5", "/state.h5"}) {
    std::ifstream file(folder_ + name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    for (size_t at = 0; at + 4 <= bytes.size(); ++at) {
      uint32_t seconds = 0;
      std::memcpy(&seconds, bytes.data() + at, sizeof(seconds));
      ASSERT_FALSE(seconds >= begin && seconds <= begin + 60) << name << ": a time at byte " << at;
    }
  }
}

#ifdef HP_WITH_HDF5
/// A file of a program that reads and writes a number, or a text, where there are others, or none.
TEST_F(Hdf5FileTest, AHeadOfOtherSizesIsRefused) {
  const std::string path = folder_ + "/state.h5";
  const auto text = [](const Hdf5Api& api) { return api.c_string; };
  const auto write = [&](const std::string& name, hsize_t count, bool number, bool variable) {
    std::vector<test::Hdf5Set> good;
    for (const char* const other : {"iter", "current_step"}) {
      if (name != other) good.push_back({other, "int", {1}, {4}});
    }
    EXPECT_TRUE(test::WriteHdf5(path, good).ok());
    if (name != "learned_net") AddSet(path, "/", "learned_net", {1}, text);
    AddSet(path, "/", name.c_str(), {count}, [&](const Hdf5Api& api) {
      if (number) return api.native_int;
      const hid_t type = api.copy_type(api.c_string);  // open to the end
      EXPECT_TRUE(!variable || api.set_size(type, H5T_VARIABLE) >= 0);
      return type;
    });
  };
  const auto read = [&] {
    caffe::SolverState state;
    return ReadHdf5State(path, &state).status().message();
  };
  const std::string begin = path + ": truncated, or not a Caffe file: ";
  for (const hsize_t count : {0, 50, 100000}) {
    write("iter", count, true, false);
    EXPECT_EQ(read(), begin + "iter is not one number") << count;
    write("current_step", count, true, false);
    EXPECT_EQ(read(), begin + "current_step is not one number") << count;
    write("learned_net", count, false, false);
    EXPECT_EQ(read(), begin + "learned_net is not one text of fixed length") << count;
  }
  write("has_manifest", 2, true, false);
  EXPECT_EQ(read(), begin + "has_manifest is not one number");
  write("learned_net", 1, true, false);
  EXPECT_EQ(read(), begin + "learned_net is not one text of fixed length");
  write("learned_net", 1, false, true);
  EXPECT_EQ(read(), begin + "learned_net is not one text of fixed length");
}
#endif

/// Binary files say that a layer is a BatchNorm; these don't.
TEST_F(Hdf5FileTest, ABatchNormWithScaleBiasIsTwoLayers) {
  const std::vector<float> values = {1, 2, 3};
  const auto blobs_of = [&values](const std::string& layer, const std::vector<int64_t>& counts) {
    BlobRefs blobs;
    for (size_t i = 0; i < counts.size(); ++i) {
      blobs[{layer, static_cast<int>(i)}] = BlobRef{Shape{counts[i]}, values.data()};
    }
    return blobs;
  };
  const auto read = [this](BlobRefs blobs) {
    const std::string path = folder_ + "/model.h5";
    EXPECT_TRUE(WriteHdf5Model(path, blobs).ok());
    return ReadCaffeModel(path);
  };
  const auto model = read(blobs_of("bn", {3, 3, 1, 3, 3}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->blobs.size(), 5u);
  for (int i = 0; i < 3; ++i) EXPECT_NE(model->Find("bn", i), nullptr) << i;
  for (int i = 0; i < 2; ++i) EXPECT_NE(model->Find("bn_scale", i), nullptr) << i;
  EXPECT_NE(read(blobs_of("bn", {3, 3, 1, 3, 2}))->Find("bn", 4), nullptr);
  EXPECT_NE(read(blobs_of("bn", {3, 3, 1, 3}))->Find("bn", 3), nullptr);
  BlobRefs two = blobs_of("bn", {3, 3, 1, 3, 3});
  two.merge(blobs_of("bn_scale", {3, 3}));
  EXPECT_NE(read(two)->Find("bn", 4), nullptr) << "the file has a layer of the other name";
}

// As GoogLeNet's, whose layers are "inception_3a/1x1" and so on.
TEST_F(Hdf5FileTest, NamesWithSlashesAreGroupsInGroups) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::string> layers = {"conv1/7x7_s2",     "inception_3a/1x1", "inception_3a/3x3/reduce",
                                           "inception_3a/3x3", "inception_3a",     "loss1/1",
                                           "loss1/1/0x",       "loss1-fc"};
  BlobRefs blobs;
  for (size_t i = 0; i < layers.size(); ++i) {
    blobs[{layers[i], 0}] = BlobRef{Shape({1}), &values[i]};
    if (i % 2 == 0) blobs[{layers[i], 1}] = BlobRef{Shape({2, 4}), values.data()};
  }
  const std::string path = folder_ + "/model.h5";
  ASSERT_TRUE(WriteHdf5Model(path, blobs).ok());
  const StatusOr<CaffeModel> model = ReadHdf5Model(path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->blobs.size(), blobs.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const Blob* const first = model->Find(layers[i], 0);
    ASSERT_NE(first, nullptr) << layers[i];
    EXPECT_EQ(first->data, std::vector<float>{values[i]});
    EXPECT_EQ(model->Find(layers[i], 1) != nullptr, i % 2 == 0) << layers[i];
  }
#ifdef HP_WITH_HDF5
  const Hdf5Lock lock;
  const StatusOr<const Hdf5Api*>& api = lock.api();
  ASSERT_TRUE(api.ok());
  const Hdf5Handle file((*api)->open_file(path.c_str(), 0, 0), (*api)->close_file);
  const Hdf5Handle outer((*api)->open_group(file.id(), "data/inception_3a", 0), (*api)->close_group);
  ASSERT_TRUE(outer.ok());
  EXPECT_TRUE(Hdf5Handle((*api)->open_dataset(outer.id(), "1x1/0", 0), (*api)->close_dataset).ok());
#endif
}

std::string NameOf(int parts) {
  std::string name = "a";
  for (int i = 1; i < parts; ++i) name += "/a";
  return name;
}

// A circle of groups has names without end.
TEST_F(Hdf5FileTest, NamesHaveAnEnd) {
  const float one = 1;
  const std::string name = NameOf(kMostHdf5NameParts);
  const std::string path = folder_ + "/model.h5";
  ASSERT_TRUE(WriteHdf5Model(path, {{{name, 0}, BlobRef{Shape({1}), &one}}}).ok());
  const StatusOr<CaffeModel> model = ReadHdf5Model(path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NE(model->Find(name, 0), nullptr);
  ASSERT_TRUE(WriteHdf5Model(path, {{{name + "/a", 0}, BlobRef{Shape({1}), &one}}}).ok());
  EXPECT_EQ(ReadHdf5Model(path).status().message(),
            path + ": truncated, or not a Caffe file: too many groups, or a circle of them");
}

caffe::NetParameter NetOf(const std::vector<std::string>& layers) {
  caffe::NetParameter net;
  for (const std::string& layer : layers) net.add_layer()->set_name(layer);
  NameLayersApart(&net);
  return net;
}

TEST(SnapshotNames, Hdf5HoldsOneLayerOfAName) {
  caffe::SolverParameter solver;
  solver.set_snapshot_format(caffe::SolverParameter::HDF5);
  const caffe::NetParameter net = NetOf({"data", "ip", "relu", "ip", "relu"});
  const Status status = CheckSnapshotNames(solver, 4, net, {"ip", "ip#2"});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "layer \"ip#2\": it is named \"ip\", and so is a layer before it; an HDF5 file holds one layer of a "
            "name; expected another name, or snapshot_format: BINARYPROTO");
  EXPECT_TRUE(CheckSnapshotNames(solver, 4, net, {"ip"}).ok()) << "the other has nothing to write";
  EXPECT_TRUE(CheckSnapshotNames(solver, 4, NetOf({"a", "ip#2"}), {"ip#2"}).ok()) << "a name of its own";
  solver.set_snapshot_format(caffe::SolverParameter::BINARYPROTO);
  EXPECT_TRUE(CheckSnapshotNames(solver, 4, net, {"ip", "ip#2"}).ok());
  const int64_t large = kMostMessageBytes + 1;
  EXPECT_TRUE(CheckSnapshotNames(solver, large, net, {"ip", "ip#2"}).message().ends_with("expected another name"));
  solver.set_snapshot_after_train(false);
  EXPECT_TRUE(CheckSnapshotNames(solver, large, net, {"ip", "ip#2"}).ok()) << "no snapshots";
}

TEST(SnapshotNames, Hdf5TakesNamesThatArePaths) {
  caffe::SolverParameter solver;
  solver.set_snapshot_format(caffe::SolverParameter::HDF5);
  const auto check = [&](const std::string& one, const std::string& other) {
    return CheckSnapshotNames(solver, 4, NetOf({one, other}), {one, other}).message();
  };
  for (const char* const good : {"a", "a/b", "a/b/0x", "a/..", "a b", "1/2"}) EXPECT_EQ(check(good, "ip"), "") << good;
  EXPECT_EQ(check(NameOf(kMostHdf5NameParts), "ip"), "");
  for (const char* const bad : {"", "/a", "a/", "a//b", "./a", "a/./b", "."}) {
    EXPECT_EQ(check(bad, "ip"), "layer \"" + std::string(bad) +
                                    "\": in an HDF5 file a name is a path of up to 64 parts, and this is none; "
                                    "expected another name, or snapshot_format: BINARYPROTO");
  }
  EXPECT_NE(check(NameOf(kMostHdf5NameParts + 1), "ip"), "");
  EXPECT_TRUE(check("ip/0/x", "ip")
                  .starts_with("layer \"ip/0/x\": in an HDF5 file that is where the blobs of layer \"ip\" are"));
  EXPECT_EQ(check("ip/0/x", "fc"), "");
}

TEST_F(Hdf5FileTest, AnErrorOfTheSourceIsReturned) {
  BlobRefs blobs;
  blobs[{"conv", 0}] = BlobRef{Shape({2}), nullptr};
  blobs[{"conv", 0}].source = [](int64_t, std::span<char>) { return DataLoss("the part is cut"); };
  EXPECT_EQ(WriteHdf5Model(folder_ + "/model.h5", blobs).message(), "the part is cut");
  EXPECT_FALSE(ReadHdf5Model(folder_ + "/missing.h5").ok()) << "and nothing is held";
}

}  // namespace
}  // namespace hp
