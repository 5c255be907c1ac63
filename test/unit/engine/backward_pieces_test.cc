#include "engine/backward_pieces.h"

#include "solvers/exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace hp::test {
namespace {

using testing::ElementsAre;

constexpr size_t kFull = Exchange::kBucketBytes;

StepGradients Nothing() { return {}; }
StepGradients Gives(int group, std::vector<size_t> bytes, int stage = 0) { return {stage, group, std::move(bytes)}; }

/// "[0,3) 5 4": the steps and the groups behind them.
std::vector<std::string> Cut(const std::vector<StepGradients>& steps) {
  std::vector<std::string> pieces;
  for (const BackwardPiece& piece : CutBackward(steps)) {
    std::string text = "[" + std::to_string(piece.begin) + "," + std::to_string(piece.end) + ")";
    for (const int group : piece.groups) text += " " + std::to_string(group);
    pieces.push_back(text);
  }
  return pieces;
}

TEST(BackwardPieces, EndWhereABucketIsFull) {
  EXPECT_THAT(Cut({Nothing(), Gives(5, {kFull / 2}), Nothing(), Gives(4, {kFull / 2}), Nothing(), Gives(3, {8})}),
              ElementsAre("[0,4) 5 4", "[4,6) 3"));
  EXPECT_THAT(Cut({Gives(2, {kFull}), Gives(1, {kFull + 1}), Nothing()}), ElementsAre("[0,1) 2", "[1,2) 1", "[2,3)"));
  EXPECT_THAT(Cut({Gives(2, {8}), Gives(1, {kFull - 9}), Gives(0, {1})}), ElementsAre("[0,3) 2 1 0"));
}

/// What stands behind the gradient that fills a bucket is in the next one, as in the exchange.
TEST(BackwardPieces, CountEachGradientByItself) {
  EXPECT_THAT(Cut({Gives(2, {kFull, 100}), Gives(1, {kFull - 100}), Gives(0, {kFull - 1})}),
              ElementsAre("[0,1) 2", "[1,2) 1", "[2,3) 0"));
}

/// Each stage's exchange has a bucket of its own.
TEST(BackwardPieces, CountEachStageByItself) {
  EXPECT_THAT(Cut({Gives(3, {kFull - 1}, 0), Gives(2, {kFull - 1}, 1), Gives(1, {1}, 1), Gives(0, {1}, 0)}),
              ElementsAre("[0,3) 3 2 1", "[3,4) 0"));
}

TEST(BackwardPieces, AreOneWhereNothingIsGivenAndNoneWithoutSteps) {
  EXPECT_THAT(Cut({Nothing(), Nothing()}), ElementsAre("[0,2)"));
  EXPECT_TRUE(CutBackward({}).empty());
}

/// ResNet-50's gradients, one step for each parameter group as large as the average: not a graph for each layer.
TEST(BackwardPieces, AreAsManyAsBucketsAtMost) {
  constexpr int kGroups = 107;
  constexpr size_t kBytes = 102'228'128;
  std::vector<StepGradients> steps;
  for (int group = kGroups; group-- > 0;) {
    steps.push_back(Nothing());
    steps.push_back(Gives(group, {kBytes / kGroups}));
  }
  const std::vector<BackwardPiece> pieces = CutBackward(steps);
  EXPECT_LE(pieces.size(), kBytes / kFull + 1);
  std::vector<int> groups, expected(kGroups);
  std::iota(expected.rbegin(), expected.rend(), 0);
  size_t next = 0;
  for (const BackwardPiece& piece : pieces) {
    EXPECT_EQ(piece.begin, next);
    next = piece.end;
    groups.insert(groups.end(), piece.groups.begin(), piece.groups.end());
  }
  EXPECT_EQ(next, steps.size());
  EXPECT_EQ(groups, expected) << "the order of the pass";
}

}  // namespace
}  // namespace hp::test
