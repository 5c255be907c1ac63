// InfogainLoss beside its formula, written out here in double.
#include "test/unit/layers/layer_test_util.h"

#include <cmath>

namespace hp::test {
namespace {

constexpr int64_t kRows = 6, kClasses = 5;
const Values kLabels = {0, 4, 2, 2, 1, 3};

/// Not symmetric, with zeros and negative gains, and rows of different sums.
Values Gains() {
  Values gains = RandomValues(kClasses * kClasses, 8, -0.5f, 2);
  gains[3] = gains[7] = 0;
  return gains;
}

std::string Matrix(const Values& gains) {
  std::string text = "matrix {";
  for (const float gain : gains) text += " data: " + std::to_string(gain);
  return text + " } ";
}

std::string LossText(const std::string& loss_param, const std::string& more = "", const Values& gains = Gains()) {
  return R"(name: "loss" type: "InfogainLoss" bottom: "x" bottom: "label" top: "loss" infogain_loss_param { )" +
         Matrix(gains) + "} loss_param { " + loss_param + " } " + more;
}

struct Loss : LabelledRun {
  explicit Loss(const std::string& text, const Values& labels = kLabels)
      : Loss(text, labels, {{static_cast<int64_t>(labels.size()), kClasses}, 1}) {}
  Loss(const std::string& text, const Values& labels, const TensorDesc& desc) : LabelledRun(text, desc, labels) {}
};

/// The sum over rows and classes of -gain * log(probability).
double SumOfLosses(const Values& logits, const Values& labels, const Values& gains, int ignored = -1) {
  double sum = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const size_t label = static_cast<size_t>(labels[row]);
    if (static_cast<int>(label) == ignored) continue;
    double all = 0;
    for (int64_t c = 0; c < kClasses; ++c) all += std::exp(static_cast<double>(logits[row * kClasses + c]));
    for (int64_t c = 0; c < kClasses; ++c) {
      const double log = static_cast<double>(logits[row * kClasses + c]) - std::log(all);
      sum -= static_cast<double>(gains[label * kClasses + c]) * log;
    }
  }
  return sum;
}

TEST(InfogainLoss, EveryNormalization) {
  Values labels = kLabels;
  labels[1] = labels[3] = 2;
  const Values logits = Loss(LossText("")).scores;
  const double all = SumOfLosses(logits, labels, Gains()), valid = SumOfLosses(logits, labels, Gains(), 2);
  const auto value = [&](const std::string& text) { return Loss(LossText(text), labels).Value(); };
  EXPECT_NEAR(value(""), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: VALID"), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: FULL"), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: BATCH_SIZE"), all / 6, 1e-5);
  EXPECT_NEAR(value("normalization: NONE"), all, 3e-5);
  EXPECT_NEAR(value("ignore_label: 2"), valid / 3, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: FULL"), valid / 6, 1e-5);
  EXPECT_NEAR(value("ignore_label: 2 normalization: NONE"), valid, 3e-5);
}

/// The gradient is that of loss_weight times the top; the top itself is not weighted.
TEST(InfogainLoss, GradientsAreWeightedTheLossIsNot) {
  for (const char* parameters :
       {"", "ignore_label: 2", "normalization: NONE", "ignore_label: 2 normalization: BATCH_SIZE"}) {
    for (const float weight : {1.0f, 0.3f, 0.0f}) {
      SCOPED_TRACE(std::string(parameters) + " weight " + std::to_string(weight));
      Loss loss(LossText(parameters, "loss_weight: " + std::to_string(weight)));
      EXPECT_EQ(loss.Value(), Loss(LossText(parameters)).Value());
      CheckAgainstDifferences(&loss.runner, {{weight}}, loss.scores, loss.Gradient(), {.tolerance = 2e-3f}, "logits",
                              [&](const Values& logits) { loss.runner.SetInput(0, logits); });
    }
  }
}

/// To the bit, for a scale that is a power of two.
TEST(InfogainLoss, GradientIsScaledTheLossIsNot) {
  for (const char* parameters : {"", "ignore_label: 2"}) {
    Loss plain(LossText(parameters, "loss_weight: 0.3")), scaled(LossText(parameters, "loss_weight: 0.3"));
    scaled.runner.batch().loss_scale = 4096;
    EXPECT_EQ(scaled.Value(), plain.Value());
    Values want = plain.Gradient();
    for (float& value : want) value *= 4096;
    EXPECT_EQ(scaled.Gradient(), want);
  }
}

/// With a one for each label's own class alone it is the usual loss.
TEST(InfogainLoss, TheIdentityIsSoftmaxWithLoss) {
  Values identity(kClasses * kClasses, 0.0f);
  for (int64_t c = 0; c < kClasses; ++c) identity[c * kClasses + c] = 1;
  Loss loss(LossText("ignore_label: 1", "", identity));
  Loss usual(R"(name: "l" type: "SoftmaxWithLoss" bottom: "x" bottom: "y" top: "l" loss_param { ignore_label: 1 })");
  EXPECT_NEAR(loss.Value(), usual.Value(), 1e-6);
  ExpectNear(loss.Gradient(), usual.Gradient(), 1e-6f, "gradients");
}

TEST(InfogainLoss, OnePixelInEveryLayout) {
  Values first;
  for (const TensorDesc& desc : LayoutsOf({kRows, kClasses, 1, 1})) {
    Loss loss(LossText(""), kLabels, desc);
    Values both = loss.Gradient();
    both.push_back(loss.Value());
    if (first.empty()) first = both;
    EXPECT_EQ(both, first) << Describe(desc);
  }
}

/// Micro-batches: any division of the rows has the same sum of contributions and the same gradients.
TEST(InfogainLoss, DivisionIntoMicroBatches) {
  for (const char* parameters : {"", "ignore_label: 2"}) {
    Loss whole(LossText(parameters));
    double sum = 0;
    Values joined;
    for (int64_t begin = 0; begin < kRows; begin += 2) {
      Loss part(LossText(parameters), Values(kLabels.begin() + begin, kLabels.begin() + begin + 2));
      part.runner.SetInput(
          0, Values(whole.scores.begin() + begin * kClasses, whole.scores.begin() + (begin + 2) * kClasses));
      part.runner.batch().global_rows = kRows;
      part.runner.batch().batch_labels = kLabels;
      sum += part.Value();
      const Values piece = part.Gradient();
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    EXPECT_NEAR(sum, whole.Value(), 1e-5);
    EXPECT_EQ(joined, whole.Gradient());
  }
}

/// Labels out of range are refused by CheckBatchLabels; here they must do no harm.
TEST(InfogainLoss, LabelsOutOfRangeYieldNothing) {
  Values labels = kLabels;
  labels[0] = 5, labels[2] = -1, labels[3] = std::nanf(""), labels[4] = 1e30f;
  Loss loss(LossText("normalization: NONE"), labels);
  const Values two(loss.scores.begin() + kClasses, loss.scores.begin() + 2 * kClasses);
  const Values last(loss.scores.end() - kClasses, loss.scores.end());
  EXPECT_NEAR(loss.Value(), SumOfLosses(two, {4}, Gains()) + SumOfLosses(last, {3}, Gains()), 1e-5);
  const Values gradient = loss.Gradient();
  for (int64_t c = 0; c < kClasses; ++c) EXPECT_EQ(gradient[c], 0);
}

TEST(InfogainLoss, TheSecondTopIsTheSoftmaxAndANanIsSeen) {
  Loss loss(LossText("", "top: \"prob\""));
  loss.runner.Forward();
  LayerUnderTest softmax(R"(name: "s" type: "Softmax" bottom: "x" top: "y")");
  const TensorDesc desc = {{kRows, kClasses}, 1};
  OpRunner of_softmax(softmax.MakeOp({desc}), {desc});
  of_softmax.SetInput(0, loss.scores);
  of_softmax.Forward();
  EXPECT_EQ(loss.runner.Output(1), of_softmax.Output());
  Values logits = loss.scores;
  logits[7] = std::nanf("");
  loss.runner.SetInput(0, logits);
  EXPECT_TRUE(std::isnan(loss.Value()));
  EXPECT_TRUE(std::isnan(loss.Gradient()[5]));
}

/// Caffe takes the logarithm of no less than 1e-20.
TEST(InfogainLoss, TheLargestLossIsCaffes) {
  Loss loss(LossText("normalization: NONE", "", Values(kClasses * kClasses, 1.0f)), {0});
  loss.runner.SetInput(0, {500, 0, 0, 0, 0});
  EXPECT_NEAR(loss.Value(), -4 * std::log(1e-20), 1e-3);
}

TEST(InfogainLoss, Refusals) {
  LayerUnderTest loss(LossText(""));
  EXPECT_TRUE(loss->reads_labels() && loss->is_statistic());
  EXPECT_EQ(loss->loss_weight(0), 1);
  EXPECT_EQ(loss->class_split(), std::nullopt) << "a shard needs the probabilities of all classes";
  EXPECT_FALSE(loss->needs_batch_labels());
  EXPECT_TRUE(LayerUnderTest(LossText("ignore_label: 2"))->needs_batch_labels());
  EXPECT_EQ(loss->OutputShapes({{4, 5}, {4}}).value(), (std::vector<Shape>{{1}}));
  EXPECT_EQ(loss->OutputShapes({{4, 6}, {4}}).status().message(),
            "layer \"loss\": its matrix has 25 numbers; expected 6 x 6, for the classes of bottom 0, [4 6]");
  EXPECT_EQ(loss->OutputShapes({{4, 5, 2, 3}, {4, 1, 2, 3}}).value(), (std::vector<Shape>{{1}}));
  EXPECT_EQ(loss->OutputShapes({{4, 5, 2}, {4}}).status().message(),
            "layer \"loss\": labels have shape [4]; expected one for each of the 4 rows and 2 pixels of [4 5 2]");
  const std::string bottoms = R"(name: "l" type: "InfogainLoss" bottom: "x" bottom: "y" top: "t" )";
  EXPECT_EQ(CreateError(bottoms),
            "layer \"l\": infogain_loss_param has no source; expected the file of a matrix with a row for each label, "
            "a binary BlobProto");
  EXPECT_EQ(CreateError(bottoms + "bottom: \"h\""),
            "layer \"l\": its matrix as a third bottom is not supported, since all bottoms have rows of samples; "
            "expected infogain_loss_param { source }, a file of it");
  EXPECT_EQ(CreateError(LossText("normalize: true")),
            "layer \"loss\": loss_param { normalize } is not read by InfogainLoss; expected normalization");
}

}  // namespace
}  // namespace hp::test
