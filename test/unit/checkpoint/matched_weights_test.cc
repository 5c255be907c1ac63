#include "checkpoint/matched_weights.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<BlobKey> kNet = {{"conv1", 0}, {"conv1", 1}, {"fc6", 0}, {"fc6", 1}, {"fc7", 0}};

TEST(MatchedWeights, LoadedMissingAndIgnored) {
  const MatchedWeights matched =
      MatchWeights(kNet, {{"conv1", 0}, {"conv1", 1}, {"fc6", 0}, {"fc8", 0}, {"fc8", 1}, {"a", 0}});
  EXPECT_THAT(matched.loaded, ElementsAre("conv1"));
  EXPECT_THAT(matched.missing, ElementsAre("fc6", "fc7")) << "fc6 lacks its bias";
  EXPECT_THAT(matched.ignored, ElementsAre("a", "fc8"));
  EXPECT_EQ(
      matched.Describe("x.caffemodel"),
      "x.caffemodel: weights of 1 layer(s) loaded; not in the file, initialized by their fillers: fc6, fc7; not in "
      "the net, ignored: a, fc8");
}

TEST(MatchedWeights, AllOrNothing) {
  const MatchedWeights all = MatchWeights(kNet, {kNet.begin(), kNet.end()});
  EXPECT_THAT(all.loaded, ElementsAre("conv1", "fc6", "fc7"));
  EXPECT_EQ(all.Describe("x"), "x: weights of 3 layer(s) loaded");
  const MatchedWeights none = MatchWeights(kNet, {{"conv", 0}});
  EXPECT_THAT(none.loaded, IsEmpty());
  EXPECT_THAT(none.missing, ElementsAre("conv1", "fc6", "fc7"));
}

}  // namespace
}  // namespace hp
