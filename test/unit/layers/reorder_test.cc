#include "backend/cpu/reorder.h"

#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

/// The value at (n, c, s) through ElementOffset, the layouts' definition.
float At(const TensorDesc& desc, const Values& memory, int64_t n, int64_t c, int64_t s) {
  return memory[ElementOffset(desc, n, c, s)];
}

void ExpectSameElements(const TensorDesc& a, const Values& a_memory, const TensorDesc& b, const Values& b_memory) {
  for (int64_t n = 0; n < a.shape[0]; ++n) {
    for (int64_t c = 0; c < a.shape[1]; ++c) {
      for (int64_t s = 0; s < a.shape.count(2); ++s) {
        ASSERT_EQ(At(a, a_memory, n, c, s), At(b, b_memory, n, c, s)) << n << " " << c << " " << s;
      }
    }
  }
}

TEST(Reorder, BetweenAnyTwoLayouts) {
  for (const Shape& shape :
       {Shape{2, 16, 3, 3}, Shape{1, 48, 9, 9}, Shape{3, 5, 2, 2}, Shape{2, 32, 1, 1}, Shape{2, 24, 70}, Shape{3, 7}}) {
    for (const TensorDesc& from : LayoutsOf(shape)) {
      for (const TensorDesc& to : LayoutsOf(shape)) {
        SCOPED_TRACE(Describe(from) + " to blocks of " + std::to_string(to.channel_block));
        const Values source = RandomValues(shape.count(), 3);
        Values target(shape.count(), 77);
        CopyLayout(from, source.data(), to, target.data());
        ExpectSameElements(from, source, to, target);
      }
    }
  }
}

TEST(Reorder, SumsInTheGivenOrder) {
  // In float (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1.
  for (const TensorDesc& to : LayoutsOf({2, 16, 3, 3})) {
    const Values a(to.count(), 1e8f), b(to.count(), 1.0f), c(to.count(), -1e8f);
    Values sum(to.count());
    const float* one_last[] = {a.data(), c.data(), b.data()};
    SumFromDense<float>(one_last, to, sum.data());
    EXPECT_EQ(sum, Values(to.count(), 1.0f));
    const float* one_between[] = {a.data(), b.data(), c.data()};
    SumFromDense<float>(one_between, to, sum.data());
    EXPECT_EQ(sum, Values(to.count(), 0.0f));
  }
}

TEST(Reorder, SameOrderWhereTheBlockMakesNoDifference) {
  EXPECT_TRUE(SameOrder({{2, 16, 1, 1}, 16}, {{2, 16, 1, 1}, 1}));
  EXPECT_TRUE(SameOrder({{2, 16}, 1}, {{2, 16}, 1}));
  EXPECT_FALSE(SameOrder({{2, 16, 2, 1}, 16}, {{2, 16, 2, 1}, 1}));
  EXPECT_FALSE(SameOrder({{2, 16, 2, 1}, 16}, {{2, 16, 2, 1}, 8}));
}

}  // namespace
}  // namespace hp::test
