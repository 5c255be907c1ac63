// Losses that are sums over elements, beside formulas written out here in double.
#include "test/unit/layers/layer_test_util.h"

#include <cmath>
#include <functional>

namespace hp::test {
namespace {

constexpr int64_t kRows = 4, kWidth = 6;
const Values kLabels = {0, 5, 2, 2};

std::string LossText(const std::string& type, const std::string& fields = "") {
  return "name: \"l\" type: \"" + type + "\" bottom: \"x\" bottom: \"t\" top: \"loss\" " + fields;
}

/// A loss of a batch of which the op has a half.
struct LossRun {
  LossRun(const std::string& text, const std::vector<TensorDesc>& in)
      : layer(text), op(layer.CreateOp(in).value()), runner(op.get(), in) {
    runner.batch().labels = labels;
    runner.batch().batch_labels = labels;
    runner.batch().global_rows = 2 * in[0].shape[0];
    runner.SetOutputGradient(0, {1});
  }
  float Value() {
    runner.Forward();
    return runner.Output()[0];
  }
  LayerUnderTest layer;
  const std::unique_ptr<Op> op;
  const Values labels = kLabels;
  OpRunner runner;
};

struct PairCase {
  std::string type, fields;
  std::function<double(double, double)> term;
  double divisor;  ///< for a batch of 8 samples of 6 elements
  bool symmetric = false;
};

double CrossEntropy(double x, double t) {
  const double s = 1 / (1 + std::exp(-x));
  return -t * std::log(s) - (1 - t) * std::log(1 - s);
}

std::vector<PairCase> Pairs() {
  const auto sigmoid = [](const std::string& fields, double divisor) {
    return PairCase{"SigmoidCrossEntropyLoss", fields, CrossEntropy, divisor};
  };
  const auto ignoring = [](double x, double t) { return static_cast<int>(t) == 1 ? 0 : CrossEntropy(x, t); };
  return {
      {"EuclideanLoss", "", [](double x, double t) { return (x - t) * (x - t) / 2; }, 8, true},
      {"EuclideanLoss", "loss_weight: 0.3", [](double x, double t) { return (x - t) * (x - t) / 2; }, 8, true},
      sigmoid("", 8),
      sigmoid("loss_param { normalization: VALID }", 48),
      sigmoid("loss_param { normalization: FULL }", 48),
      sigmoid("loss_param { normalization: BATCH_SIZE } loss_weight: 2", 8),
      sigmoid("loss_param { normalization: NONE }", 1),
      sigmoid("loss_param { normalize: true }", 48),
      sigmoid("loss_param { normalize: false }", 8),
      {"SigmoidCrossEntropyLoss", "loss_param { ignore_label: 1 normalization: FULL }", ignoring, 48},
      // The counts of the rows are what LossRun has for labels.
      {"SigmoidCrossEntropyLoss", "loss_param { ignore_label: 1 normalization: VALID }", ignoring, 0 + 5 + 2 + 2},
  };
}

TEST(PairLoss, ValuesAndGradientsInEveryMixOfLayouts) {
  for (const PairCase& c : Pairs()) {
    for (const TensorDesc& x_desc : LayoutsOf({kRows, 2, 3, 1})) {
      for (const TensorDesc& t_desc : LayoutsOf({kRows, 2, 3, 1})) {
        SCOPED_TRACE(c.type + " " + c.fields + " " + Describe(x_desc) + " " + Describe(t_desc));
        LossRun loss(LossText(c.type, c.fields), {x_desc, t_desc});
        const Values x = RandomValues(kRows * kWidth, 1, -3, 3);
        Values t = RandomValues(kRows * kWidth, 2, 0, 1);
        if (!c.symmetric) {
          for (float& value : t) value = value > 0.7f ? 1.0f : value;
        }
        loss.runner.SetInput(0, x), loss.runner.SetInput(1, t);
        double sum = 0;
        for (int64_t i = 0; i < kRows * kWidth; ++i) sum += c.term(x[i], t[i]);
        EXPECT_NEAR(loss.Value(), sum / c.divisor, 1e-5 * sum);
        loss.runner.BackwardInput();
        const Values dx = loss.runner.InputGradient(0), dt = loss.runner.InputGradient(1);
        const float weight = loss.layer->loss_weight(0);
        CheckAgainstDifferences(&loss.runner, {{weight}}, x, dx, {.tolerance = 1e-3f}, "x",
                                [&](const Values& values) { loss.runner.SetInput(0, values); });
        if (!c.symmetric) {
          EXPECT_EQ(dt, Values(kRows * kWidth, 0.0f));
          continue;
        }
        CheckAgainstDifferences(&loss.runner, {{weight}}, t, dt, {.tolerance = 1e-3f}, "t",
                                [&](const Values& values) { loss.runner.SetInput(1, values); });
      }
    }
  }
}

struct LabelCase {
  std::string type, fields;
  std::function<double(double, bool)> term;  ///< of an element, and whether it is of the label's class
  float low;                                 ///< of x
};

const LabelCase kLabelled[] = {
    {"HingeLoss", "", [](double x, bool label) { return std::max(0.0, label ? 1 - x : 1 + x); }, -2},
    {"HingeLoss", "hinge_loss_param { norm: L1 } loss_weight: 0.5",
     [](double x, bool label) { return std::max(0.0, label ? 1 - x : 1 + x); }, -2},
    {"HingeLoss", "hinge_loss_param { norm: L2 }",
     [](double x, bool label) { return std::pow(std::max(0.0, label ? 1 - x : 1 + x), 2); }, -2},
    {"MultinomialLogisticLoss", "", [](double x, bool label) { return label ? -std::log(x) : 0; }, 0.1f},
};

TEST(LabelledLoss, ValuesAndGradients) {
  for (const LabelCase& c : kLabelled) {
    std::vector<TensorDesc> layouts = LayoutsOf({kRows, 2, 3, 1});  // each number of a row is of a class of its own
    layouts.insert(layouts.end(), {{{kRows, kWidth}, 1}, {{kRows, kWidth, 1, 1}, kWidth}});
    for (const TensorDesc& in : layouts) {
      SCOPED_TRACE(c.type + " " + c.fields + " " + Describe(in));
      LossRun loss(LossText(c.type, c.fields), {in});
      const Values x = RandomValues(kRows * kWidth, 1, c.low, 2);
      loss.runner.SetInput(0, x);
      double sum = 0;
      for (int64_t i = 0; i < kRows * kWidth; ++i) {
        sum += c.term(x[i], i % kWidth == static_cast<int64_t>(kLabels[i / kWidth]));
      }
      EXPECT_NEAR(loss.Value(), sum / 8, 1e-5 * sum);
      loss.runner.BackwardInput();
      CheckAgainstDifferences(&loss.runner, {{loss.layer->loss_weight(0)}}, x, loss.runner.InputGradient(),
                              {.step = 2e-3f, .tolerance = 5e-3f}, "x",
                              [&](const Values& values) { loss.runner.SetInput(0, values); });
    }
  }
}

TEST(PairLoss, LabelsAreTargetsOfOneNumber) {
  for (const PairCase& c : Pairs()) {
    SCOPED_TRACE(c.type + " " + c.fields);
    LossRun loss(LossText(c.type, c.fields), {{{kRows, 1}, 1}});
    const Values x = RandomValues(kRows, 1, -3, 3);
    loss.runner.SetInput(0, x);
    double sum = 0;
    for (int64_t i = 0; i < kRows; ++i) sum += c.term(x[i], kLabels[i]);
    const double divisor = c.divisor == 48 ? 8 : c.divisor;
    EXPECT_NEAR(loss.Value(), sum / divisor, 1e-5 * (1 + std::fabs(sum)));
    loss.runner.BackwardInput();
    CheckAgainstDifferences(&loss.runner, {{loss.layer->loss_weight(0)}}, x, loss.runner.InputGradient(),
                            {.tolerance = 1e-3f}, "x", [&](const Values& values) { loss.runner.SetInput(0, values); });
  }
}

std::string ContrastiveText(const std::string& fields) {
  return "name: \"l\" type: \"ContrastiveLoss\" bottom: \"x\" bottom: \"t\" bottom: \"y\" top: \"loss\" " + fields;
}

struct ContrastiveCase {
  std::string fields;
  double margin;
  bool legacy;
};

const ContrastiveCase kContrastive[] = {
    {"", 1, false},
    {"contrastive_loss_param { margin: 4 } loss_weight: 0.3", 4, false},
    {"contrastive_loss_param { margin: 0 }", 0, false},
    {"contrastive_loss_param { margin: 9 legacy_version: true }", 9, true},
};

/// Of a row: half the square, or half the square of what is missing to the margin.
double ContrastiveTerm(const ContrastiveCase& c, double d2, bool similar) {
  if (similar) return d2 / 2;
  if (c.legacy) return std::max(0.0, c.margin - d2) / 2;
  return std::pow(std::max(0.0, c.margin - std::sqrt(d2)), 2) / 2;
}

// kLabels: a pair that is not similar, and three that are, by any number but 0.
TEST(ContrastiveLoss, ValuesAndGradientsInEveryMixOfLayouts) {
  for (const ContrastiveCase& c : kContrastive) {
    for (const TensorDesc& a_desc : LayoutsOf({kRows, 2, 3, 1})) {
      for (const TensorDesc& b_desc : LayoutsOf({kRows, 2, 3, 1})) {
        for (const bool tensor : {false, true}) {
          SCOPED_TRACE(c.fields + " " + Describe(a_desc) + " " + Describe(b_desc));
          std::vector<TensorDesc> in = {a_desc, b_desc};
          if (tensor) in.push_back({{kRows}, 1});
          LossRun loss(ContrastiveText(c.fields), in);
          const Values a = RandomValues(kRows * kWidth, 1, -1, 1), b = RandomValues(kRows * kWidth, 2, -1, 1);
          const Values similar = tensor ? Values{0, 1, 0, -2} : kLabels;
          loss.runner.SetInput(0, a), loss.runner.SetInput(1, b);
          if (tensor) loss.runner.SetInput(2, similar);
          double sum = 0;
          for (int64_t row = 0; row < kRows; ++row) {
            double d2 = 0;
            for (int64_t i = row * kWidth; i < (row + 1) * kWidth; ++i) d2 += std::pow(double{a[i]} - double{b[i]}, 2);
            sum += ContrastiveTerm(c, d2, similar[row] != 0);
          }
          EXPECT_NEAR(loss.Value(), sum / 8, 1e-5 * sum);
          loss.runner.BackwardInput();
          const Values da = loss.runner.InputGradient(0), db = loss.runner.InputGradient(1);
          const float weight = loss.layer->loss_weight(0);
          CheckAgainstDifferences(&loss.runner, {{weight}}, a, da, {.tolerance = 2e-3f}, "a",
                                  [&](const Values& values) { loss.runner.SetInput(0, values); });
          CheckAgainstDifferences(&loss.runner, {{weight}}, b, db, {.tolerance = 2e-3f}, "b",
                                  [&](const Values& values) { loss.runner.SetInput(1, values); });
          if (tensor) {
            EXPECT_EQ(loss.runner.InputGradient(2), Values(kRows, 0.0f));
          }
        }
      }
    }
  }
}

TEST(ContrastiveLoss, IsScaledAndSeesANanAndEqualRows) {
  const std::vector<TensorDesc> in(2, {{kRows, kWidth}, 1});
  LossRun plain(ContrastiveText(""), in), scaled(ContrastiveText(""), in);
  for (LossRun* loss : {&plain, &scaled}) {
    loss->runner.SetInput(0, RandomValues(kRows * kWidth, 1, -0.3f, 0.3f));
    loss->runner.SetInput(1, RandomValues(kRows * kWidth, 2, -0.3f, 0.3f));
  }
  scaled.runner.batch().loss_scale = 4096;
  EXPECT_EQ(scaled.Value(), plain.Value());
  plain.runner.BackwardInput(), scaled.runner.BackwardInput();
  Values want = plain.runner.InputGradient();
  for (float& value : want) value *= 4096;
  EXPECT_EQ(scaled.runner.InputGradient(), want);
  plain.runner.SetInput(1, RandomValues(kRows * kWidth, 1, -0.3f, 0.3f));
  EXPECT_EQ(plain.Value(), 0.5f / 8) << "equal rows that should not be: a margin of 1";
  plain.runner.BackwardInput();
  EXPECT_EQ(plain.runner.InputGradient(), Values(kRows * kWidth, 0.0f)) << "no direction";
  for (const bool legacy : {false, true}) {
    LossRun loss(ContrastiveText(legacy ? "contrastive_loss_param { legacy_version: true }" : ""), in);
    Values a = RandomValues(kRows * kWidth, 1);
    a[0] = NAN;
    loss.runner.SetInput(0, a), loss.runner.SetInput(1, RandomValues(kRows * kWidth, 2));
    EXPECT_TRUE(std::isnan(loss.Value()));
    loss.runner.BackwardInput();
    EXPECT_TRUE(std::isnan(loss.runner.InputGradient()[0]));
  }
}

TEST(ContrastiveLoss, Refusals) {
  LayerUnderTest loss(ContrastiveText(""));
  EXPECT_EQ(loss->OutputShapes({{4, 3}, {4, 2}, {4}}).status().message(),
            "layer \"l\": bottoms have shapes [4 3] and [4 2]; expected equal ones (a Reshape or Flatten may help)");
  EXPECT_EQ(
      loss->OutputShapes({{4, 3}, {4, 3}, {4, 2}}).status().message(),
      "layer \"l\": its third bottom, which says what is similar, has shape [4 2]; expected a number for each of 4 "
      "rows");
  EXPECT_EQ(loss->OutputShapes({{4, 3}, {4, 3}, {4, 1, 1}}).value(), (std::vector<Shape>{{1}}));
  EXPECT_TRUE(loss->may_read_labels() && loss->has_fixed_targets());
  EXPECT_EQ(loss->label_bottom(), 2u);
  EXPECT_EQ(CreateError(ContrastiveText("contrastive_loss_param { margin: -1 }")),
            "layer \"l\": contrastive_loss_param { margin: -1 }: expected a finite number of at least 0");
  EXPECT_EQ(CreateError(LossText("ContrastiveLoss")), "layer \"l\": has 2 bottoms; ContrastiveLoss takes 3");
}

TEST(ElementLoss, TheGradientIsScaledTheLossIsNot) {
  for (const char* type : {"EuclideanLoss", "SigmoidCrossEntropyLoss"}) {
    const std::vector<TensorDesc> in(2, {{kRows, kWidth}, 1});
    LossRun plain(LossText(type), in), scaled(LossText(type), in);
    for (LossRun* loss : {&plain, &scaled}) {
      loss->runner.SetInput(0, RandomValues(kRows * kWidth, 1));
      loss->runner.SetInput(1, RandomValues(kRows * kWidth, 2, 0, 1));
    }
    scaled.runner.batch().loss_scale = 4096;
    EXPECT_EQ(scaled.Value(), plain.Value());
    plain.runner.BackwardInput();
    scaled.runner.BackwardInput();
    Values want = plain.runner.InputGradient();
    for (float& value : want) value *= 4096;
    EXPECT_EQ(scaled.runner.InputGradient(), want);
  }
}

TEST(ElementLoss, LargeScoresDoNotOverflowAndANanIsSeen) {
  LossRun sigmoid(LossText("SigmoidCrossEntropyLoss"), {{{4, 1}, 1}, {{4, 1}, 1}});
  sigmoid.runner.SetInput(0, {-1000, 1000, 1000, -1000});
  sigmoid.runner.SetInput(1, {0, 1, 0, 1});
  EXPECT_EQ(sigmoid.Value(), 250);
  sigmoid.runner.BackwardInput();
  EXPECT_EQ(sigmoid.runner.InputGradient(), (Values{0, 0, 0.125f, -0.125f}));
  for (const LabelCase& c : kLabelled) {
    LossRun loss(LossText(c.type, c.fields), {{{kRows, kWidth}, 1}});
    Values x = RandomValues(kRows * kWidth, 1, 0.5f, 2);
    x[0] = NAN;
    loss.runner.SetInput(0, x);
    EXPECT_TRUE(std::isnan(loss.Value())) << c.type;
  }
  LossRun logistic(LossText("MultinomialLogisticLoss"), {{{1, 2}, 1}});
  logistic.runner.SetInput(0, {0, 1});
  EXPECT_NEAR(logistic.Value(), -std::log(1e-20) / 2, 1e-3);
}

TEST(ElementLoss, Refusals) {
  LayerUnderTest pair(LossText("EuclideanLoss"));
  for (const Shape& other : {Shape{4, 4}, Shape{3, 4}}) {
    EXPECT_EQ(
        pair->OutputShapes({{4, 3}, other}).status().message(),
        "layer \"l\": bottoms have shapes [4 3] and [" + other.ToString() + "]; expected as many elements in each row");
  }
  for (const std::vector<Shape>& in :
       {std::vector<Shape>{{4, 1, 1}, {4}}, {{4, 6}, {4, 1, 2, 3}}, {{4, 2, 3}, {4, 6}}}) {
    EXPECT_EQ(pair->OutputShapes(in).value(), (std::vector<Shape>{{1}}));
  }
  EXPECT_FALSE(pair->reads_labels());
  EXPECT_TRUE(pair->may_read_labels());
  EXPECT_TRUE(pair->is_statistic());
  EXPECT_EQ(pair->loss_weight(0), 1);
  LayerUnderTest labelled(LossText("HingeLoss"));
  EXPECT_TRUE(labelled->reads_labels());
  EXPECT_EQ(labelled->OutputShapes({{4, 3, 2}, {4}}).value(), (std::vector<Shape>{{1}}));
  EXPECT_EQ(labelled->classes({4, 3, 2}), 6);
  EXPECT_EQ(labelled->OutputShapes({{4, 3, 2}, {4, 2}}).status().message(),
            "layer \"l\": labels have shape [4 2]; expected one for each of the 4 rows of [4 3 2]");
  EXPECT_FALSE(
      LayerUnderTest(LossText("SigmoidCrossEntropyLoss", "loss_param { ignore_label: 3 }"))->needs_batch_labels());
  EXPECT_TRUE(LayerUnderTest(LossText("SigmoidCrossEntropyLoss", "loss_param { ignore_label: 3 normalize: true }"))
                  ->needs_batch_labels());
}

}  // namespace
}  // namespace hp::test
