#include "base/words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hp {
namespace {

using Words = std::vector<std::string>;

TEST(WordsTest, ListsOfFlags) {
  EXPECT_EQ(SplitList("a,b/cuda:0-3,c"), (Words{"a", "b/cuda:0-3", "c"}));
  EXPECT_EQ(SplitList(",a,,b,"), (Words{"a", "b"}));
  EXPECT_EQ(SplitList(""), Words());
  EXPECT_EQ(SplitList(" a.caffemodel,\tb c.caffemodel \n, ,d"), (Words{"a.caffemodel", "b c.caffemodel", "d"}));
}

TEST(WordsTest, Join) {
  EXPECT_EQ(Join({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(Join({"a", "b"}, ","), "a,b");
  EXPECT_EQ(Join({}), "");
}

}  // namespace
}  // namespace hp
