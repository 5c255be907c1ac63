#include "proto/hash.h"

#include "base/hash.h"
#include "proto/text.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  const Status status = ParseTextProto(text, "text", &message);
  EXPECT_TRUE(status.ok()) << status.message();
  return message;
}

uint64_t OfNet(const std::string& text) { return NetHash(Parse<caffe::NetParameter>(text)); }
uint64_t OfSolver(const std::string& text) { return SolverHash(Parse<caffe::SolverParameter>(text)); }

TEST(HashTest, BytesAreXxh64) {
  // Reference values of the XXH64 specification's test vectors (seed 0).
  EXPECT_EQ(HashBytes(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(HashBytes("a"), 0xD24EC4F1A98C6E5Bu);
}

TEST(HashTest, TextDoesNotMatterButContentDoes) {
  const uint64_t hash = OfNet("name: 'n' layer { name: 'a' type: 'ReLU' }");
  EXPECT_EQ(hash, OfNet("# comment\nlayer < type: \"ReLU\"\n name: \"a\" >\nname: 'n'"));
  EXPECT_NE(hash, OfNet("name: 'n' layer { name: 'a' type: 'TanH' }"));
  EXPECT_NE(hash, OfNet("name: 'n' layer { name: 'a' type: 'ReLU' } layer { name: 'b' type: 'ReLU' }"));
}

TEST(HashTest, NetLeavesOutWhatDiffersFromHostToHost) {
  const std::string layer = "layer { name: 'd' type: 'Data' ";
  const uint64_t hash = OfNet(layer + "data_param { source: '/a' batch_size: 4 } transform_param { mean_file: 'x' } }");
  EXPECT_EQ(hash, OfNet(layer + "data_param { source: '/b' batch_size: 4 } transform_param { mean_file: 'y' } }"));
  EXPECT_NE(hash, OfNet(layer + "data_param { source: '/a' batch_size: 5 } transform_param { mean_file: 'x' } }"));
  EXPECT_NE(hash, OfNet(layer + "data_param { source: '/a' batch_size: 4 } transform_param { mirror: true } }"));
  const auto images = [](const std::string& fields) {
    return OfNet("layer { name: 'd' type: 'ImageData' image_data_param { " + fields + " } }");
  };
  EXPECT_EQ(images("source: '/a' root_folder: '/b' mean_file: 'x'"),
            images("source: '/c' root_folder: '/d' mean_file: 'y'"));
  const std::string rows = "layer { name: 'd' type: 'HDF5Data' hdf5_data_param { batch_size: 2 source: ";
  EXPECT_EQ(OfNet(rows + "'/a' } }"), OfNet(rows + "'/b' } }"));
  EXPECT_NE(images("new_height: 3"), images("new_height: 4"));
}

/// Hosts have their files at other paths, and comments of their own.
TEST(HashTest, NetLeavesOutWhereItsLayersStand) {
  caffe::NetParameter net = Parse<caffe::NetParameter>("layer { name: 'a' type: 'ReLU' }");
  const uint64_t hash = NetHash(net);
  net.mutable_layer(0)->add_place("/a/net.prototxt:1");
  EXPECT_EQ(NetHash(net), hash);
}

TEST(HashTest, SolverLeavesOutSeedAndPaths) {
  const uint64_t hash = OfSolver("net: 'a' base_lr: 0.1 random_seed: 3 snapshot_prefix: 'p' solver_mode: CPU");
  EXPECT_EQ(hash, OfSolver("net: 'b' base_lr: 0.1 random_seed: -1 snapshot_prefix: 'q' solver_mode: GPU"));
  EXPECT_NE(hash, OfSolver("net: 'a' base_lr: 0.2 random_seed: 3 snapshot_prefix: 'p' solver_mode: CPU"));
}

}  // namespace
}  // namespace hp
