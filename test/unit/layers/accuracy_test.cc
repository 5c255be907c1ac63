#include "test/unit/layers/layer_test_util.h"

#include <algorithm>
#include <cmath>

namespace hp::test {
namespace {

struct AccuracyOf {
  AccuracyOf(const std::string& parameters, int64_t rows, const Values& labels)
      : layer(R"(name: "a" type: "Accuracy" bottom: "x" bottom: "label" top: "a" accuracy_param { )" + parameters +
              " }"),
        labels(labels),
        desc{{rows, 5}, 1},
        runner(layer.MakeOp({desc}), {desc}) {
    runner.batch().labels = this->labels;
    runner.batch().batch_labels = this->labels;
  }
  float operator()(const Values& scores) {
    runner.SetInput(0, scores);
    runner.Forward();
    return runner.Output()[0];
  }
  LayerUnderTest layer;
  const Values labels;
  const TensorDesc desc;
  OpRunner runner;
};

/// Independent of the op's way: sort the other scores, see whether the label's is above the k-th of them.
bool IsRight(const Values& scores, int64_t row, int64_t label, int top_k) {
  Values others(scores.begin() + row * 5, scores.begin() + row * 5 + 5);
  const float own = others[label];
  others.erase(others.begin() + label);
  std::sort(others.rbegin(), others.rend());
  return top_k > 4 || own > others[top_k - 1];
}

TEST(Accuracy, CountsRowsAmongTheTopK) {
  const int64_t rows = 40;
  const Values scores = RandomValues(rows * 5, 3);
  Values labels;
  for (int64_t row = 0; row < rows; ++row) labels.push_back(static_cast<float>(row * 7 % 5));
  for (int top_k = 1; top_k <= 5; ++top_k) {
    int right = 0;
    for (int64_t row = 0; row < rows; ++row) right += IsRight(scores, row, static_cast<int64_t>(labels[row]), top_k);
    AccuracyOf accuracy("top_k: " + std::to_string(top_k), rows, labels);
    EXPECT_FLOAT_EQ(accuracy(scores), static_cast<float>(right) / rows) << top_k;
    EXPECT_EQ(right == rows, top_k == 5);
    EXPECT_GT(right, 0);
  }
}

/// Caffe: a score that equals the label's ranks before it. A net that says the same of all classes is always wrong.
TEST(Accuracy, TiesCountAgainstTheLabel) {
  EXPECT_EQ(AccuracyOf("top_k: 1", 1, {2})({1, 1, 1, 1, 1}), 0);
  EXPECT_EQ(AccuracyOf("top_k: 4", 1, {2})({1, 1, 1, 1, 1}), 0);
  EXPECT_EQ(AccuracyOf("top_k: 5", 1, {2})({1, 1, 1, 1, 1}), 1);
  EXPECT_EQ(AccuracyOf("top_k: 1", 1, {2})({0, 0, 3, 3, 1}), 0);
  EXPECT_EQ(AccuracyOf("top_k: 2", 1, {2})({0, 0, 3, 3, 1}), 1);
}

TEST(Accuracy, IgnoredLabelsCountNeitherWay) {
  const Values scores = {5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0, 0, 0, 0};
  EXPECT_FLOAT_EQ(AccuracyOf("", 4, {0, 1, 2, 0})(scores), 0.5f);
  EXPECT_FLOAT_EQ(AccuracyOf("ignore_label: 2", 4, {0, 1, 2, 0})(scores), 2.0f / 3);
  EXPECT_FLOAT_EQ(AccuracyOf("ignore_label: 0", 4, {0, 0, 0, 0})(scores), 0);
}

TEST(Accuracy, DivisionIntoMicroBatches) {
  const Values scores = RandomValues(8 * 5, 5);
  const Values labels = {0, 1, 2, 3, 4, 2, 2, 0};
  for (const char* parameters : {"", "ignore_label: 2"}) {
    const float whole = AccuracyOf(parameters, 8, labels)(scores);
    double sum = 0;
    for (int64_t begin : {0, 3, 6}) {
      const int64_t end = std::min<int64_t>(8, begin + 3);
      AccuracyOf part(parameters, end - begin, Values(labels.begin() + begin, labels.begin() + end));
      part.runner.batch().batch_labels = labels;
      part.runner.batch().global_rows = 8;
      sum += part(Values(scores.begin() + begin * 5, scores.begin() + end * 5));
    }
    EXPECT_NEAR(sum, whole, 1e-6);
    EXPECT_GT(whole, 0);
  }
}

TEST(Accuracy, NaNAndBadLabelsAreWrong) {
  EXPECT_EQ(AccuracyOf("", 1, {2})(Values(5, std::nanf(""))), 0);
  EXPECT_EQ(AccuracyOf("", 1, {7})({1, 2, 3, 4, 5}), 0);
  EXPECT_EQ(AccuracyOf("", 1, {-3})({1, 2, 3, 4, 5}), 0);
}

}  // namespace
}  // namespace hp::test
