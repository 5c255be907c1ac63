// Losses and accuracies with a label for each pixel, beside formulas written out here in double.
#include "test/unit/layers/layer_test_util.h"

#include <cmath>
#include <functional>

namespace hp::test {
namespace {

constexpr int64_t kRows = 3, kClasses = 16, kHeight = 2, kWidth = 5, kPixels = kHeight * kWidth;
constexpr int kIgnored = 2;
const Shape kScores = {kRows, kClasses, kHeight, kWidth};

/// Whole numbers below kClasses; all of row 0's are ignored, none of row 1's.
Values LabelsOfPixels() {
  Values labels = RandomValues(kRows * kPixels, 5, 0, kClasses);
  for (int64_t i = 0; i < kRows * kPixels; ++i) {
    labels[i] = std::floor(labels[i]);
    if (i < kPixels) labels[i] = kIgnored;
    if (i / kPixels == 1 && labels[i] == kIgnored) labels[i] = 7;
  }
  labels[2 * kPixels] = kIgnored;
  return labels;
}

/// What goes ahead of a batch: how many labels of each row count.
Values CountsOf(const Values& labels, int ignored) {
  Values counts(labels.size() / kPixels, 0.0f);
  for (size_t i = 0; i < labels.size(); ++i) counts[i / kPixels] += labels[i] != static_cast<float>(ignored) ? 1 : 0;
  return counts;
}

double At(const Values& scores, int64_t row, int64_t c, int64_t pixel) {
  return scores[(row * kClasses + c) * kPixels + pixel];
}

/// The sum of -log of the labels' probabilities.
double SumOfLosses(const Values& scores, const Values& labels, int ignored = -1) {
  double all = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(labels.size()); ++i) {
    const int64_t label = static_cast<int64_t>(labels[i]), row = i / kPixels, pixel = i % kPixels;
    if (label == ignored) continue;
    double sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(At(scores, row, c, pixel) - At(scores, row, label, pixel));
    all += std::log(sum);
  }
  return all;
}

struct PixelRun : LabelledRun {
  PixelRun(const std::string& text, const TensorDesc& desc = {kScores, 1}, const Values& labels = LabelsOfPixels())
      : LabelledRun(text + " bottom: \"x\" bottom: \"label\" top: \"y\"", desc, labels, CountsOf(labels, kIgnored)) {}
};

std::string Loss(const std::string& loss_param, const std::string& more = "") {
  return "name: \"loss\" type: \"SoftmaxWithLoss\" loss_param { " + loss_param + " } " + more;
}
std::string AccuracyText(const std::string& fields) {
  return "name: \"a\" type: \"Accuracy\" accuracy_param { " + fields + " }";
}

TEST(PixelLoss, EveryNormalization) {
  const PixelRun any(Loss(""));
  const double all = SumOfLosses(any.scores, any.labels), valid = SumOfLosses(any.scores, any.labels, kIgnored);
  int counted = 0;
  for (const float count : any.of_batch) counted += static_cast<int>(count);
  ASSERT_GT(counted, kPixels);
  ASSERT_LT(counted, 2 * kPixels);
  const auto value = [](const std::string& text) { return PixelRun(Loss(text)).Value(); };
  EXPECT_NEAR(value(""), all / 30, 1e-5);
  EXPECT_NEAR(value("normalization: VALID"), all / 30, 1e-5);
  EXPECT_NEAR(value("normalization: FULL"), all / 30, 1e-5);
  EXPECT_NEAR(value("normalization: BATCH_SIZE"), all / 3, 1e-4);
  EXPECT_NEAR(value("normalization: NONE"), all, 1e-4);
  EXPECT_NEAR(value("normalize: false"), all / 3, 1e-4);
  EXPECT_NEAR(value("ignore_label: 2"), valid / counted, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalize: true"), valid / counted, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: FULL"), valid / 30, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: BATCH_SIZE"), valid / 3, 1e-4);
  EXPECT_NEAR(value("ignore_label: 2 normalization: NONE"), valid, 1e-4);
}

TEST(PixelLoss, GradientInEveryLayout) {
  for (const TensorDesc& desc : LayoutsOf(kScores)) {
    for (const char* const parameters :
         {"", "ignore_label: 2", "ignore_label: 2 normalization: BATCH_SIZE", "normalization: NONE"}) {
      SCOPED_TRACE(Describe(desc) + " " + parameters);
      PixelRun run(Loss(parameters, "loss_weight: 0.3"), desc);
      EXPECT_NEAR(run.Value(), PixelRun(Loss(parameters)).Value(), 1e-5);
      CheckAgainstDifferences(&run.runner, {{0.3f}}, run.scores, run.Gradient(), {.tolerance = 2e-3f, .samples = 60},
                              "scores", [&](const Values& scores) { run.runner.SetInput(0, scores); });
    }
  }
}

TEST(PixelLoss, IgnoredPixelsHaveNoGradient) {
  PixelRun run(Loss("ignore_label: 2"));
  const Values gradient = run.Gradient();
  for (int64_t i = 0; i < static_cast<int64_t>(gradient.size()); ++i) {
    const int64_t row = i / (kClasses * kPixels), pixel = i % kPixels;
    EXPECT_EQ(gradient[i] == 0, run.labels[row * kPixels + pixel] == kIgnored) << i;
  }
}

/// Rows of a batch, each a micro-batch: the divisor is the whole batch's.
TEST(PixelLoss, DivisionIntoMicroBatches) {
  for (const std::string& text :
       {Loss("ignore_label: 2"), Loss(""), AccuracyText("ignore_label: 2 top_k: 5"), AccuracyText("top_k: 5")}) {
    PixelRun whole(text);
    const float total = whole.Value();
    ASSERT_GT(total, 0);
    double sum = 0;
    Values joined;
    for (int64_t row = 0; row < kRows; ++row) {
      PixelRun part(text, {{1, kClasses, kHeight, kWidth}, 1},
                    Values(whole.labels.begin() + row * kPixels, whole.labels.begin() + (row + 1) * kPixels));
      const int64_t scores = kClasses * kPixels;
      part.runner.SetInput(0, Values(whole.scores.begin() + row * scores, whole.scores.begin() + (row + 1) * scores));
      part.runner.batch().global_rows = kRows;
      part.runner.batch().batch_labels = whole.of_batch;
      sum += part.Value();
      const Values piece = part.Gradient();
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    EXPECT_NEAR(sum, total, 1e-5);
    EXPECT_EQ(joined, whole.Gradient());
  }
}

TEST(PixelLoss, SecondTopIsTheSoftmaxOfEachPixel) {
  for (const TensorDesc& desc : LayoutsOf(kScores)) {
    PixelRun run(Loss("", "top: \"loss\""), desc);
    run.runner.Forward();
    const Values probabilities = run.runner.Output(1);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
        double sum = 0;
        for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(At(run.scores, row, c, pixel));
        for (int64_t c = 0; c < kClasses; ++c) {
          EXPECT_NEAR(At(probabilities, row, c, pixel), std::exp(At(run.scores, row, c, pixel)) / sum, 1e-6);
        }
      }
    }
  }
}

TEST(PixelLoss, AllLabelsIgnoredIsZeroNotNaN) {
  PixelRun loss(Loss("ignore_label: 2"), {kScores, 1}, Values(kRows * kPixels, kIgnored));
  EXPECT_EQ(loss.Value(), 0);
  EXPECT_EQ(loss.Gradient(), Values(kScores.count(), 0.0f));
  EXPECT_EQ(PixelRun(AccuracyText("ignore_label: 2"), {kScores, 1}, Values(kRows * kPixels, kIgnored)).Value(), 0);
}

TEST(PixelLoss, LabelsOutOfRangeYieldNothing) {
  Values labels = LabelsOfPixels();
  PixelRun plain(Loss("normalization: NONE"), {kScores, 1}, labels);
  const double all = plain.Value();
  const Values counted(plain.labels.begin(), plain.labels.begin() + 4);
  labels[0] = kClasses, labels[1] = -1, labels[2] = std::nanf(""), labels[3] = 1e30f;
  PixelRun loss(Loss("normalization: NONE"), {kScores, 1}, labels);
  double without = 0;
  for (int64_t pixel = 0; pixel < 4; ++pixel) {
    double sum = 0;
    const int64_t label = static_cast<int64_t>(counted[pixel]);
    for (int64_t c = 0; c < kClasses; ++c)
      sum += std::exp(At(loss.scores, 0, c, pixel) - At(loss.scores, 0, label, pixel));
    without += std::log(sum);
  }
  EXPECT_NEAR(loss.Value(), all - without, 1e-4);
}

/// A weight for each pair of a pixel's label and class.
TEST(PixelLoss, InfogainInEveryLayout) {
  const Values gains = RandomValues(kClasses * kClasses, 9, -0.5f, 2);
  std::string matrix;
  for (const float gain : gains) matrix += " data: " + std::to_string(gain);
  const auto text = [&](const std::string& ignore, const std::string& more) {
    return "name: \"loss\" type: \"InfogainLoss\" infogain_loss_param { matrix {" + matrix + " } } loss_param { " +
           ignore + " } " + more;
  };
  for (const TensorDesc& desc : LayoutsOf(kScores)) {
    for (const int ignored : {-1, kIgnored}) {
      SCOPED_TRACE(Describe(desc) + " ignored " + std::to_string(ignored));
      PixelRun run(text(ignored < 0 ? "" : "ignore_label: " + std::to_string(ignored), "loss_weight: 0.3"), desc);
      double sum = 0, counted = 0;
      for (int64_t i = 0; i < kRows * kPixels; ++i) {
        const int64_t row = i / kPixels, pixel = i % kPixels, label = static_cast<int64_t>(run.labels[i]);
        if (label == ignored) continue;
        ++counted;
        double all = 0;
        for (int64_t c = 0; c < kClasses; ++c) all += std::exp(At(run.scores, row, c, pixel));
        for (int64_t c = 0; c < kClasses; ++c) {
          sum -= static_cast<double>(gains[label * kClasses + c]) * (At(run.scores, row, c, pixel) - std::log(all));
        }
      }
      EXPECT_NEAR(run.Value(), sum / counted, 1e-4);
      CheckAgainstDifferences(&run.runner, {{0.3f}}, run.scores, run.Gradient(), {.tolerance = 4e-3f, .samples = 60},
                              "scores", [&](const Values& scores) { run.runner.SetInput(0, scores); });
    }
    PixelRun both(text("", "top: \"loss\""), desc), usual(Loss("", "top: \"loss\""), desc);
    both.runner.Forward();
    usual.runner.Forward();
    ExpectNear(both.runner.Output(1), usual.runner.Output(1), 1e-6f, "softmax");
  }
}

/// The same scores with the classes along another axis.
struct MovedScores {
  explicit MovedScores(int axis)
      : axis(axis),
        shape(axis == 2 ? Shape{kRows, kHeight, kClasses, kWidth} : Shape{kRows, kHeight, kWidth, kClasses}) {}

  Values operator()(const Values& scores) const {
    Values moved(scores.size());
    for (int64_t i = 0; i < kScores.count(); ++i) {
      const int64_t row = i / (kClasses * kPixels), c = i / kPixels % kClasses, h = i / kWidth % kHeight,
                    w = i % kWidth;
      moved[axis == 2 ? ((row * kHeight + h) * kClasses + c) * kWidth + w
                      : ((row * kHeight + h) * kWidth + w) * kClasses + c] = scores[i];
    }
    return moved;
  }
  const int axis;
  const Shape shape;
};

TEST(PixelLoss, ClassesAlongAnotherAxis) {
  std::string matrix;
  for (const float gain : RandomValues(kClasses * kClasses, 9, -0.5f, 2)) matrix += " data: " + std::to_string(gain);
  const auto softmax = [](const std::string& axis, const std::string& fields) {
    return Loss(fields, axis.empty() ? "" : "softmax_param { axis: " + axis + " }");
  };
  const auto infogain = [&](const std::string& axis, const std::string& fields) {
    return "name: \"loss\" type: \"InfogainLoss\" infogain_loss_param { matrix {" + matrix + " } " +
           (axis.empty() ? "" : "axis: " + axis) + " } loss_param { " + fields + " }";
  };
  const auto accuracy = [](const std::string& axis, const std::string& fields) {
    return AccuracyText("top_k: 5 " + (axis.empty() ? "" : "axis: " + axis) +
                        (fields.starts_with("ignore_label: 2") ? " ignore_label: 2" : ""));
  };
  for (const auto& text :
       {std::function<std::string(const std::string&, const std::string&)>(softmax), {infogain}, {accuracy}}) {
    for (const std::string fields : {"", "ignore_label: 2", "normalization: FULL", "normalization: BATCH_SIZE"}) {
      PixelRun plain(text("", fields));
      const float value = plain.Value();
      ASSERT_NE(value, 0);
      for (const std::string axis : {"2", "-1"}) {
        const MovedScores moved(axis == "2" ? 2 : 3);
        for (const TensorDesc& desc : LayoutsOf(moved.shape)) {
          SCOPED_TRACE(text(axis, fields) + Describe(desc));
          PixelRun run(text(axis, fields), desc);
          run.runner.SetInput(0, moved(plain.scores));
          // Caffe's BATCH_SIZE counts what lies in front of the classes.
          const float outer = fields.ends_with("BATCH_SIZE") && text("", fields).find("Accuracy") == std::string::npos
                                  ? static_cast<float>(moved.shape.count(1, axis == "2" ? 2 : 3))
                                  : 1;
          EXPECT_NEAR(outer * run.Value(), value, 1e-5 * std::abs(value));
          Values gradient = run.Gradient();
          for (float& number : gradient) number *= outer;
          ExpectNear(gradient, moved(plain.Gradient()), 1e-6f, "gradient");
        }
      }
    }
  }
}

TEST(PixelLoss, TheSoftmaxAlongAnotherAxis) {
  PixelRun plain(Loss("", "top: \"loss\""));
  plain.runner.Forward();
  for (const int axis : {2, 3}) {
    const MovedScores moved(axis);
    for (const TensorDesc& desc : LayoutsOf(moved.shape)) {
      PixelRun run(Loss("", "top: \"loss\" softmax_param { axis: " + std::to_string(axis) + " }"), desc);
      run.runner.SetInput(0, moved(plain.scores));
      run.runner.Forward();
      ExpectNear(run.runner.Output(1), moved(plain.runner.Output(1)), 1e-6f, "softmax");
    }
  }
}

TEST(PixelAccuracy, CountsPixelsAmongTheTopKInEveryLayout) {
  for (const TensorDesc& desc : LayoutsOf(kScores)) {
    for (int64_t top_k = 1; top_k <= kClasses; top_k += 5) {
      PixelRun run(AccuracyText("top_k: " + std::to_string(top_k)), desc);
      PixelRun valid(AccuracyText("ignore_label: 2 top_k: " + std::to_string(top_k)), desc);
      int right = 0, right_valid = 0, counted = 0;
      for (int64_t i = 0; i < kRows * kPixels; ++i) {
        const int64_t row = i / kPixels, pixel = i % kPixels, label = static_cast<int64_t>(run.labels[i]);
        int above = 0;
        for (int64_t c = 0; c < kClasses; ++c) {
          above += c != label && At(run.scores, row, c, pixel) >= At(run.scores, row, label, pixel) ? 1 : 0;
        }
        right += above < top_k ? 1 : 0;
        counted += label != kIgnored ? 1 : 0;
        right_valid += label != kIgnored && above < top_k ? 1 : 0;
      }
      EXPECT_FLOAT_EQ(run.Value(), static_cast<float>(right) / 30);
      EXPECT_FLOAT_EQ(valid.Value(), static_cast<float>(right_valid) / static_cast<float>(counted));
      EXPECT_GT(right, 0);
    }
  }
}

/// Losses that compare each element with a label of its own.
TEST(PixelTargets, OfEveryElementInEveryLayout) {
  const Values labels = RandomValues(kScores.count(), 8, 0, 1);
  for (const TensorDesc& desc : LayoutsOf(kScores)) {
    for (const char* const type : {"EuclideanLoss", "SigmoidCrossEntropyLoss"}) {
      SCOPED_TRACE(Describe(desc) + type);
      PixelRun run("name: \"l\" type: \"" + std::string(type) + "\"", desc, labels);
      double sum = 0;
      for (int64_t i = 0; i < kScores.count(); ++i) {
        const double x = run.scores[i], t = labels[i], s = 1 / (1 + std::exp(-x));
        sum += type[0] == 'E' ? (x - t) * (x - t) / 2 : -t * std::log(s) - (1 - t) * std::log(1 - s);
      }
      EXPECT_NEAR(run.Value(), sum / kRows, 1e-3);
      CheckAgainstDifferences(&run.runner, {{1}}, run.scores, run.Gradient(), {.tolerance = 1e-2f}, "x",
                              [&](const Values& x) { run.runner.SetInput(0, x); });
    }
  }
}

}  // namespace
}  // namespace hp::test
