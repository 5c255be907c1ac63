#include "base/block.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <numeric>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;

std::vector<float> Numbered(const Shape& shape) {
  std::vector<float> values(shape.count());
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// Every division of `columns` or rows at one uneven place, empty parts included.
std::vector<Block> Divisions(const Shape& shape) {
  const Block whole = Block::Whole(shape);
  std::vector<Block> blocks = {whole};
  for (int64_t row : {int64_t{0}, whole.end_row / 3, whole.end_row}) {
    for (int64_t col : {int64_t{0}, whole.end_col / 2, whole.end_col}) {
      blocks.push_back({0, row, 0, col});
      blocks.push_back({0, row, col, whole.end_col});
      blocks.push_back({row, whole.end_row, 0, col});
      blocks.push_back({row, whole.end_row, col, whole.end_col});
    }
  }
  return blocks;
}

const Shape kShapes[] = {{7, 23}, {5}, {3, 2, 5, 5}, {4, 1}, {1, 9}, {}};

TEST(Block, SeesABlobAsAMatrix) {
  EXPECT_EQ(Block::Whole({3, 2, 5, 5}), (Block{0, 3, 0, 50}));
  EXPECT_EQ(Block::Whole({7}), (Block{0, 7, 0, 1}));
  EXPECT_EQ(Block::Whole({}), (Block{0, 1, 0, 1}));
  EXPECT_EQ(Block::Rows({3, 2, 5, 5}, 1, 3).ShapeIn({3, 2, 5, 5}), Shape({2, 2, 5, 5}));
  EXPECT_EQ((Block{0, 3, 10, 14}.ShapeIn({3, 2, 5, 5})), Shape({3, 4}));
  EXPECT_TRUE((Block{3, 3, 0, 50}.LiesIn({3, 2, 5, 5})));
  EXPECT_TRUE((Block{3, 3, 0, 50}.empty()));
  EXPECT_FALSE((Block{0, 4, 0, 50}.LiesIn({3, 2, 5, 5})));
  EXPECT_FALSE((Block{0, 3, 0, 51}.LiesIn({3, 2, 5, 5})));
  EXPECT_FALSE((Block{2, 1, 0, 50}.LiesIn({3, 2, 5, 5})));
}

TEST(Block, IsCutRowByRow) {
  const std::vector<float> whole = Numbered({4, 5});
  std::vector<float> dense(6);
  CutBlock(whole, {4, 5}, {1, 3, 1, 4}, dense);
  EXPECT_THAT(dense, ElementsAre(6, 7, 8, 11, 12, 13));
}

TEST(Block, IsPutBackWhereItWasAndNowhereElse) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> whole = Numbered(shape);
    for (const Block& block : Divisions(shape)) {
      std::vector<float> dense(block.count()), put(shape.count(), -1);
      CutBlock(whole, shape, block, dense);
      PlaceBlock(dense, block, shape, put);
      const int64_t columns = ColumnsOf(shape);
      for (int64_t i = 0; i < shape.count(); ++i) {
        const int64_t row = i / columns, col = i % columns;
        const bool inside =
            row >= block.begin_row && row < block.end_row && col >= block.begin_col && col < block.end_col;
        ASSERT_EQ(put[i], inside ? whole[i] : -1) << shape << ": " << block << ", element " << i;
      }
    }
  }
}

TEST(Block, IsPutIntoAnyPartOfItsBlob) {
  const Shape shape = {5, 7};
  const std::vector<float> whole = Numbered(shape);
  for (const Block& block : Divisions(shape)) {
    std::vector<float> dense(block.count()), all(shape.count(), -1);
    CutBlock(whole, shape, block, dense);
    PlaceBlock(dense, block, shape, all);
    for (int64_t begin = 0; begin <= shape.count(); ++begin) {
      for (int64_t end = begin; end <= shape.count(); ++end) {
        std::vector<float> part(end - begin, -1);
        PlaceBlockInPart(dense, block, shape, begin, part);
        ASSERT_EQ(part, std::vector<float>(all.begin() + begin, all.begin() + end)) << block << ": " << begin;
      }
    }
  }
}

TEST(BlockDeathTest, OneOutsideTheBlobIsABug) {
  std::vector<float> whole(12), dense(4);
  EXPECT_DEATH(CutBlock(whole, {3, 4}, {2, 4, 0, 2}, dense), "rows 2 to 4, columns 0 to 2");
  EXPECT_DEATH(CutBlock(whole, {3, 4}, {0, 1, 0, 2}, dense), "");
}

}  // namespace
}  // namespace hp
