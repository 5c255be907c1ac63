#include "test/unit/layers/layer_test_util.h"

#include <cfloat>
#include <cmath>

namespace hp::test {
namespace {

constexpr int64_t kRows = 6, kClasses = 5;
const Values kLabels = {0, 4, 2, 2, 1, 3};

std::string LossText(const std::string& loss_param, const std::string& more = "") {
  return R"(name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" loss_param { )" + loss_param +
         " } " + more;
}

/// -log of the label's probability, in double.
double RowLoss(const Values& logits, int64_t row, int64_t label) {
  double sum = 0;
  for (int64_t c = 0; c < kClasses; ++c) {
    sum += std::exp(static_cast<double>(logits[row * kClasses + c]) - logits[row * kClasses + label]);
  }
  return std::log(sum);
}

double SumOfLosses(const Values& logits, const Values& labels, int ignored = -1) {
  double sum = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const int64_t label = static_cast<int64_t>(labels[row]);
    if (label != ignored) sum += RowLoss(logits, static_cast<int64_t>(row), label);
  }
  return sum;
}

struct Loss : LabelledRun {
  explicit Loss(const std::string& text, const TensorDesc& desc = {{kRows, kClasses}, 1},
                const Values& labels = kLabels)
      : LabelledRun(text, desc, labels) {}
};

TEST(SoftmaxLoss, EveryNormalization) {
  Values labels = kLabels;
  labels[1] = labels[3] = 2;
  const double all = SumOfLosses(Loss(LossText("")).scores, labels);
  const double valid = SumOfLosses(Loss(LossText("")).scores, labels, 2);
  const auto value = [&](const std::string& text) {
    return Loss(LossText(text), {{kRows, kClasses}, 1}, labels).Value();
  };
  EXPECT_NEAR(value(""), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: VALID"), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: FULL"), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: BATCH_SIZE"), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: NONE"), all, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2"), valid / 3, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: FULL"), valid / 6, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: BATCH_SIZE"), valid / 6, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: NONE"), valid, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalize: true"), valid / 3, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalize: false"), valid / 6, 1e-5);
}

/// The gradient is that of loss_weight times the top; the top itself is not weighted.
TEST(SoftmaxLoss, GradientIsWeightedTheLossIsNot) {
  for (const char* parameters :
       {"", "ignore_label: 2", "normalization: NONE", "ignore_label: 2 normalization: BATCH_SIZE"}) {
    for (float weight : {1.0f, 0.3f, 0.0f}) {
      SCOPED_TRACE(std::string(parameters) + " weight " + std::to_string(weight));
      Loss loss(LossText(parameters, "loss_weight: " + std::to_string(weight)));
      const float value = loss.Value();
      EXPECT_EQ(value, Loss(LossText(parameters)).Value());
      CheckAgainstDifferences(&loss.runner, {{weight}}, loss.scores, loss.Gradient(), {.tolerance = 1e-3f}, "logits",
                              [&](const Values& logits) { loss.runner.SetInput(0, logits); });
    }
  }
}

/// To the bit, for a scale that is a power of two.
TEST(SoftmaxLoss, GradientIsScaledTheLossIsNot) {
  for (const char* parameters : {"", "ignore_label: 2"}) {
    Loss plain(LossText(parameters, "loss_weight: 0.3")), scaled(LossText(parameters, "loss_weight: 0.3"));
    scaled.runner.batch().loss_scale = 4096;
    EXPECT_EQ(scaled.Value(), plain.Value());
    Values want = plain.Gradient();
    for (float& value : want) value *= 4096;
    EXPECT_EQ(scaled.Gradient(), want);
  }
}

TEST(SoftmaxLoss, OnePixelInEveryLayout) {
  const Shape shape = {2, 16, 1, 1};
  Values first;
  for (const TensorDesc& desc : LayoutsOf(shape)) {
    LayerUnderTest layer(LossText(""));
    OpRunner runner(layer.MakeOp({desc}), {desc});
    const Values labels = {3, 15};
    runner.batch().labels = labels;
    runner.SetInput(0, RandomValues(32, 4));
    runner.Forward();
    const float value = runner.Output()[0];
    runner.BackwardInput();
    Values both = runner.InputGradient();
    both.push_back(value);
    if (first.empty()) first = both;
    EXPECT_EQ(both, first) << Describe(desc);
  }
}

/// Micro-batches: any division of the rows has the same sum of contributions and the same gradients.
TEST(SoftmaxLoss, DivisionIntoMicroBatches) {
  for (const char* parameters : {"", "ignore_label: 2"}) {
    Loss whole(LossText(parameters));
    const float total = whole.Value();
    const Values gradient = whole.Gradient();
    for (int64_t rows : {1, 2, 4}) {
      double sum = 0;
      Values joined;
      for (int64_t begin = 0; begin < kRows; begin += rows) {
        const int64_t end = std::min(kRows, begin + rows);
        Loss part(LossText(parameters), {{end - begin, kClasses}, 1},
                  Values(kLabels.begin() + begin, kLabels.begin() + end));
        part.runner.SetInput(0, Values(whole.scores.begin() + begin * kClasses, whole.scores.begin() + end * kClasses));
        part.runner.batch().global_rows = kRows;
        part.runner.batch().batch_labels = kLabels;
        sum += part.Value();
        const Values piece = part.Gradient();
        joined.insert(joined.end(), piece.begin(), piece.end());
      }
      EXPECT_NEAR(sum, total, 1e-6);
      EXPECT_EQ(joined, gradient);
    }
  }
}

TEST(SoftmaxLoss, AllLabelsIgnoredIsZeroNotNaN) {
  Loss loss(LossText("ignore_label: 2"), {{kRows, kClasses}, 1}, Values(kRows, 2.0f));
  EXPECT_EQ(loss.Value(), 0);
  EXPECT_EQ(loss.Gradient(), Values(kRows * kClasses, 0.0f));
}

/// Labels out of range are refused by CheckBatchLabels; here they must do no harm.
TEST(SoftmaxLoss, LabelsOutOfRangeYieldNothing) {
  Values labels = kLabels;
  labels[0] = 5, labels[2] = -1, labels[3] = std::nanf(""), labels[4] = 1e30f;
  Loss loss(LossText("normalization: NONE"), {{kRows, kClasses}, 1}, labels);
  EXPECT_NEAR(loss.Value(), RowLoss(loss.scores, 1, 4) + RowLoss(loss.scores, 5, 3), 1e-5);
  const Values gradient = loss.Gradient();
  for (int c = 0; c < kClasses; ++c) EXPECT_EQ(gradient[c], 0);
}

TEST(SoftmaxLoss, NaNReachesTheLoss) {
  Loss loss(LossText(""));
  Values logits = loss.scores;
  logits[7] = std::nanf("");
  loss.runner.SetInput(0, logits);
  EXPECT_TRUE(std::isnan(loss.Value()));
}

/// Caffe takes the logarithm of no less than FLT_MIN: its well-known largest loss.
TEST(SoftmaxLoss, LargestLossIsCaffes) {
  Loss loss(LossText(""));
  Values logits(kRows * kClasses, 0.0f);
  for (int64_t row = 0; row < kRows; ++row) logits[row * kClasses + static_cast<int64_t>(kLabels[row])] = -500;
  loss.runner.SetInput(0, logits);
  EXPECT_NEAR(loss.Value(), -std::log(FLT_MIN), 1e-4);  // 87.3365
}

TEST(SoftmaxLoss, SecondTopIsTheSoftmax) {
  Loss loss(LossText("", "top: \"prob\""));
  loss.runner.Forward();
  const Values probabilities = loss.runner.Output(1);
  for (int64_t i = 0; i < kRows * kClasses; ++i) {
    EXPECT_NEAR(probabilities[i], std::exp(-RowLoss(loss.scores, i / kClasses, i % kClasses)), 1e-6);
  }
}

TEST(SoftmaxLoss, GradientNobodyWantsIsNotWritten) {
  Loss loss(LossText(""));
  loss.runner.Forward();
  loss.runner.SkipInputGradient(0);
  loss.runner.BackwardInput();
  for (float value : loss.runner.InputGradient()) EXPECT_TRUE(std::isnan(value));  // the runner's poison
}

}  // namespace
}  // namespace hp::test
