#include "input/label_counts.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(LabelCounts, OfEachRow) {
  const std::vector<float> labels = {0, 255, 2, 255, 255, 255};
  EXPECT_EQ(CountLabels(labels, 3, 255), (std::vector<float>{2, 0}));
  EXPECT_EQ(CountLabels(labels, 2, 255), (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(CountLabels(labels, 3, std::nullopt), (std::vector<float>{3, 3}));
}

}  // namespace
}  // namespace hp
