#include "layers/labels.h"

#include "test/support/log_lines.h"
#include "test/unit/layers/layer_test_util.h"

#include <limits>

namespace hp::test {
namespace {

Status CheckLabels(const Values& labels, const LabelRule& rule, int64_t of_row = 1) {
  Status status = CheckBatchLabels({0, 0, labels}, {&rule, 1}, of_row);
  const std::string place = "layer \"" + rule.layer + "\", batch 0, rows from 0: ";
  return status.ok() ? status : Status(status.code(), status.message().substr(place.size()));
}

TEST(Labels, WholeNumbersInRangePass) {
  EXPECT_TRUE(CheckLabels(Values{0, 9, 3}, {"loss", 10, std::nullopt}).ok());
  EXPECT_TRUE(CheckLabels(Values{0, -1, 255}, {"loss", 10, -1}).ok() == false);
  EXPECT_TRUE(CheckLabels(Values{0, 255, 9}, {"loss", 10, 255}).ok());
  EXPECT_TRUE(CheckLabels({}, {"loss", 10, std::nullopt}).ok());
}

TEST(Labels, OthersAreNamedWithTheirRow) {
  EXPECT_EQ(CheckLabels(Values{0, 1, 2, 12}, {"loss", 10, std::nullopt}).message(), "label 12 of row 3 is not in 0..9");
  EXPECT_EQ(CheckLabels(Values{10}, {"loss", 10, std::nullopt}).message(), "label 10 of row 0 is not in 0..9");
  EXPECT_EQ(CheckLabels(Values{-1}, {"loss", 10, std::nullopt}).message(), "label -1 of row 0 is not in 0..9");
  EXPECT_EQ(CheckLabels(Values{1.5f}, {"loss", 10, std::nullopt}).message(),
            "label 1.5 of row 0 is not a whole number in 0..9");
  EXPECT_FALSE(CheckLabels(Values{std::numeric_limits<float>::quiet_NaN()}, {"loss", 10, -1}).ok());
  EXPECT_EQ(CheckLabels(Values{10}, {"loss", 10, std::nullopt}).code(), StatusCode::kInvalidArgument);
}

TEST(Labels, OfAnAccuracyCountAsWrong) {
  const LabelRule rule = {.layer = "accuracy", .classes = 1, .wrong_counts = true};
  LogLines lines;
  EXPECT_TRUE(CheckLabels(Values{0, 0.37f, -0.5f}, rule).ok()) << "they are read as 0";
  EXPECT_TRUE(lines.With("count as wrong").empty());
  EXPECT_TRUE(CheckLabels(Values{0, 3, -1}, rule).ok());
  EXPECT_EQ(lines.With("label 3 of row 1 is not in 0..0: such labels count as wrong").size(), 1u);
  for (float label : {std::numeric_limits<float>::quiet_NaN(), 1e30f}) {
    EXPECT_EQ(CheckLabels(Values{label}, rule).code(), StatusCode::kInvalidArgument) << label;
  }
  const Values right = {0, 3}, wrong = {0, 4};
  const LabelRule rules[] = {rule, {.layer = "loss", .classes = 4}};
  EXPECT_TRUE(CheckBatchLabels({0, 0, right}, rules, 1).ok());
  BatchLabels labels = {2, 6, wrong};
  EXPECT_EQ(CheckBatchLabels(labels, rules, 1).message(),
            "layer \"loss\", batch 2, rows from 6: label 4 of row 1 is not in 0..3");
  labels.record = [](int64_t row) { return "list.txt:" + std::to_string(row); };
  EXPECT_EQ(CheckBatchLabels(labels, rules, 1).message(),
            "list.txt:1: layer \"loss\", batch 2, rows from 6: label 4 of row 1 is not in 0..3");
}

TEST(Labels, SeveralInARow) {
  const Values labels = {0, 1, 2, 255, 4, 12};
  EXPECT_EQ(CheckLabels(labels, {"loss", 10, 255, {0, 1, 2}}, 3).message(),
            "label 12 (number 2) of row 1 is not in 0..9");
  EXPECT_TRUE(CheckLabels(labels, {"loss", 10, 255, {1, 0}}, 3).ok());
  EXPECT_EQ(CheckLabels(labels, {"loss", 10, 255, {2}}, 3).message(), "label 12 of row 1 is not in 0..9");
}

TEST(Labels, NumbersOfEachRow) {
  const std::vector<float> labels = {0, 255, 2, 255, 255, 255};
  const auto numbers = [&](int64_t of_row, const std::vector<LabelNumber>& what) {
    return NumbersOfRows(labels, of_row, what);
  };
  EXPECT_EQ(numbers(3, {{{0, 1, 2}, 255, true}}), (std::vector<float>{2, 0}));
  EXPECT_EQ(numbers(2, {{{0, 1}, 255, true}}), (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(numbers(3, {{{0, 1, 2}, std::nullopt, true}}), (std::vector<float>{3, 3}));
  EXPECT_EQ(numbers(1, {{{0}, 255}}), labels) << "the only label itself, also an ignored one";
  EXPECT_EQ(numbers(3, {{{0}, 255}, {{1, 2}, 255, true}, {{2, 0}, 2, true}}), (std::vector<float>{0, 1, 1, 255, 0, 2}));
}

TEST(Labels, LayersSayWhichTheyIgnore) {
  const LayerUnderTest loss(
      R"(name: "l" type: "SoftmaxWithLoss" bottom: "a" bottom: "b" top: "t" loss_param { ignore_label: 255 })");
  EXPECT_EQ(loss->ignore_label(), 255);
  const LayerUnderTest accuracy(
      R"(name: "a" type: "Accuracy" bottom: "a" bottom: "b" top: "t" accuracy_param { ignore_label: 3 })");
  EXPECT_EQ(accuracy->ignore_label(), 3);
  const LayerUnderTest none(R"(name: "a" type: "Accuracy" bottom: "a" bottom: "b" top: "t")");
  EXPECT_EQ(none->ignore_label(), std::nullopt);
}

}  // namespace
}  // namespace hp::test
