#include "checkpoint/matched_weights.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<BlobKey> kNet = {{"conv1", 0}, {"conv1", 1}, {"fc6", 0}, {"fc6", 1}, {"fc7", 0}};

TEST(MatchedWeights, LoadedMissingAndIgnored) {
  const MatchedWeights matched = MatchWeights(kNet, {{"conv1", 0}, {"conv1", 1}, {"fc8", 0}, {"fc8", 1}, {"a", 0}}, {});
  EXPECT_THAT(matched.loaded, ElementsAre("conv1"));
  EXPECT_THAT(matched.missing, ElementsAre("fc6", "fc7"));
  EXPECT_THAT(matched.ignored, ElementsAre("a", "fc8"));
  EXPECT_EQ(
      matched.Describe("x.caffemodel", true),
      "x.caffemodel: weights of 1 layer(s) loaded; not in the file, initialized by their fillers: fc6, fc7; not in "
      "the net, ignored: a, fc8");
}

TEST(MatchedWeights, AllOrNothing) {
  const MatchedWeights all = MatchWeights(kNet, {kNet.begin(), kNet.end()}, {});
  EXPECT_THAT(all.loaded, ElementsAre("conv1", "fc6", "fc7"));
  EXPECT_EQ(all.Describe("x", true), "x: weights of 3 layer(s) loaded");
  const MatchedWeights none = MatchWeights(kNet, {{"conv", 0}}, {});
  EXPECT_THAT(none.loaded, IsEmpty());
  EXPECT_THAT(none.missing, ElementsAre("conv1", "fc6", "fc7"));
}

/// A net may begin with the values of several files, one over the other.
TEST(MatchedWeights, OfAnEarlierFileAreKept) {
  const MatchedWeights first = MatchWeights(kNet, {{"fc6", 0}, {"fc6", 1}}, {});
  EXPECT_EQ(first.Describe("a", false), "a: weights of 1 layer(s) loaded; not in the file: conv1, fc7");
  const MatchedWeights second = MatchWeights(kNet, {{"conv1", 0}, {"conv1", 1}}, {{"fc6", 0}, {"fc6", 1}});
  EXPECT_THAT(second.loaded, ElementsAre("conv1"));
  EXPECT_THAT(second.kept, ElementsAre("fc6"));
  EXPECT_THAT(second.missing, ElementsAre("fc7"));
  EXPECT_EQ(second.Describe("b", true),
            "b: weights of 1 layer(s) loaded; not in the file, with the values that were there before it: fc6; not in "
            "the file, initialized by their fillers: fc7");
}

CaffeModel ModelWith(const std::vector<BlobKey>& blobs) {
  CaffeModel model;
  model.path = "x.caffemodel";
  for (const BlobKey& key : blobs) model.blobs[key] = Blob{Shape{1}, false, {0.0F}};
  return model;
}

std::string Said(int file, int net) {
  return "x.caffemodel: incompatible number of blobs for layer \"fc6\": " + std::to_string(file) + " in the file, " +
         std::to_string(net) + " in the net; to begin with its fillers' values a layer needs another name";
}

TEST(CheckBlobCounts, ALayerHasAsManyAsInTheNet) {
  const std::set<std::string> layers = {"data", "conv1", "fc6"};
  std::vector<std::vector<SharedBlob>> params = {{{"conv1", 0, {1}}}, {{"fc6", 0, {1}}}, {{"fc6", 1, {1}}}};
  const auto check = [&](const std::vector<BlobKey>& blobs) {
    const Status status = CheckBlobCounts(ModelWith(blobs), layers, params);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kFailedPrecondition);
    return status.message();
  };
  EXPECT_EQ(check({{"conv1", 0}, {"fc6", 0}, {"fc6", 1}}), "");
  EXPECT_EQ(check({{"conv1", 0}, {"other", 0}, {"other", 1}}), "") << "a new layer, and one that is ignored";
  EXPECT_EQ(check({{"fc6", 0}}), Said(1, 2));
  EXPECT_EQ(check({{"fc6", 1}}), Said(1, 2));
  EXPECT_EQ(check({{"fc6", 0}, {"fc6", 1}, {"fc6", 2}}), Said(3, 2));
  EXPECT_EQ(check({{"fc6", 0}, {"fc6", 2}}), Said(2, 2)) << "an HDF5 file may have gaps";
  params.resize(1);
  EXPECT_EQ(check({{"fc6", 0}}), Said(1, 0)) << "the net's layer has none";
}

// Caffe writes all layers of a net, also those without blobs.
TEST(CheckBlobCounts, ALayerWithoutBlobsHasOtherThanTheNets) {
  CaffeModel model = ModelWith({{"conv1", 0}});
  model.bare = {"data", "fc6"};
  const std::vector<std::vector<SharedBlob>> params = {{{"conv1", 0, {1}}}, {{"fc6", 0, {1}}}, {{"fc6", 1, {1}}}};
  EXPECT_EQ(CheckBlobCounts(model, {"data", "conv1", "fc6"}, params).message(), Said(0, 2));
  EXPECT_TRUE(CheckBlobCounts(model, {"data", "conv1"}, {params[0]}).ok());
  const std::vector<std::vector<SharedBlob>> shared = {{{"conv1", 0, {1}}, {"fc6", 0, {1}}}};
  EXPECT_TRUE(CheckBlobCounts(model, {"data", "conv1", "fc6"}, shared).ok());
}

// As in HDF5 files, which have them once.
TEST(CheckBlobCounts, SharedOnesMayBeWithAnotherLayer) {
  const std::set<std::string> layers = {"fc5", "fc6"};
  const std::vector<std::vector<SharedBlob>> params = {
      {{"fc5", 0, {1}}, {"fc6", 0, {1}}}, {{"fc5", 1, {1}}}, {{"fc6", 1, {1}}}};
  EXPECT_TRUE(CheckBlobCounts(ModelWith({{"fc5", 0}, {"fc5", 1}, {"fc6", 1}}), layers, params).ok());
  EXPECT_TRUE(CheckBlobCounts(ModelWith({{"fc6", 0}, {"fc6", 1}}), layers, params).ok());
  EXPECT_EQ(CheckBlobCounts(ModelWith({{"fc6", 1}}), layers, params).message(), Said(1, 2));
}

}  // namespace
}  // namespace hp
