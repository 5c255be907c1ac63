// The margin softmax loss, and a normalised product below it, beside their definition in double: cosines by acos and
// cos as it is written, d logit / d cosine taken as the scale.
#include "test/unit/layers/layer_test_util.h"

#include <cfloat>
#include <cmath>
#include <numeric>

namespace hp::test {
namespace {

using Doubles = std::vector<double>;

struct Margin {
  double scale = 64, angle = 0, cosine = 0;
  std::string text() const {
    return "margin_param { scale: " + std::to_string(scale) + " angle: " + std::to_string(angle) +
           " cosine: " + std::to_string(cosine) + " }";
  }
  double Logit(double x, bool label) const {
    const double clamped = std::clamp(x, -1.0, 1.0);
    return scale * (label ? std::cos(std::acos(clamped) + angle) - cosine : clamped);
  }
};

const Margin kMargins[] = {{64, 0.5, 0}, {30, 0, 0.35}, {8, 0.3, 0.2}, {4, 0, 0}, {5, 3, -0.25}};

constexpr int64_t kClasses = 5;
constexpr int kIgnored = 2;
const Values kLabels = {0, 4, 2, 2, 1, 3};

/// Of a mean over the labels that are not ignored.
struct Reference {
  double loss = 0;
  Doubles probabilities, gradient;
  Reference(const Margin& margin, const Doubles& x, const Values& labels, int ignored) {
    const int64_t rows = std::ssize(labels), classes = std::ssize(x) / rows;
    const double counted =
        static_cast<double>(std::count_if(labels.begin(), labels.end(), [=](float label) { return label != ignored; }));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t label = static_cast<int64_t>(labels[row]);
      const bool counts = label != ignored;
      Doubles p(classes);
      for (int64_t c = 0; c < classes; ++c) p[c] = margin.Logit(x[row * classes + c], counts && c == label);
      const double largest = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& value : p) sum += value = std::exp(value - largest);
      for (int64_t c = 0; c < classes; ++c) {
        p[c] /= sum;
        probabilities.push_back(p[c]);
        gradient.push_back(counts ? margin.scale * (p[c] - (c == label ? 1 : 0)) / counted : 0);
      }
      if (counts) loss -= std::log(std::max(p[label], static_cast<double>(FLT_MIN))) / counted;
    }
  }
};

void ExpectClose(const Values& got, const Doubles& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 1e-30;
  for (double value : want) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance * largest) << what << " " << i;
}

std::string LossText(const Margin& margin, const std::string& more = "") {
  return R"(name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" )" + margin.text() + more;
}

/// The loss of cosines x, with the probabilities as second top.
void ExpectReference(const Margin& margin, const Values& x, bool ignore) {
  SCOPED_TRACE(margin.text());
  LayerUnderTest layer(
      LossText(margin, " top: \"prob\"" + std::string(ignore ? " loss_param { ignore_label: 2 }" : "")));
  const TensorDesc desc = {{std::ssize(kLabels), kClasses}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.batch().labels = runner.batch().batch_labels = kLabels;
  runner.SetInput(0, x);
  runner.Forward();
  const Reference want(margin, Doubles(x.begin(), x.end()), kLabels, ignore ? kIgnored : -1);
  ExpectClose(runner.Output(0), {want.loss}, 1e-5, "loss");
  ExpectClose(runner.Output(1), want.probabilities, 2e-5, "probabilities");
  runner.BackwardInput();
  ExpectClose(runner.InputGradient(), want.gradient, 2e-5, "gradient");
}

TEST(MarginLoss, IsItsDefinition) {
  for (const Margin& margin : kMargins) {
    for (bool ignore : {false, true}) {
      ExpectReference(margin, RandomValues(std::ssize(kLabels) * kClasses, 3), ignore);
    }
  }
}

/// The label's angle plus the margin is above pi: cos goes on as it does.
TEST(MarginLoss, AnglesBeyondPi) {
  for (float x : {-1.0f, -0.99f, -0.7f}) {
    Values cosines = RandomValues(std::ssize(kLabels) * kClasses, 4);
    for (int64_t row = 0; row < std::ssize(kLabels); ++row)
      cosines[row * kClasses + static_cast<int>(kLabels[row])] = x;
    ExpectReference({8, 1, 0}, cosines, false);
    ExpectReference({8, 3.14159, 0.1}, cosines, false);
  }
}

TEST(MarginLoss, CosinesAreClamped) {
  Values cosines = RandomValues(std::ssize(kLabels) * kClasses, 5, -3, 3);
  for (const Margin& margin : kMargins) ExpectReference(margin, cosines, true);
  cosines[0] = cosines[9] = 1, cosines[3] = -1;
  for (const Margin& margin : kMargins) ExpectReference(margin, cosines, false);
}

/// The defaults are a scale of 64 and no margin.
TEST(MarginLoss, Defaults) {
  LayerUnderTest plain(R"(name: "l" type: "SoftmaxWithLoss" bottom: "x" bottom: "y" top: "t" margin_param { })");
  const TensorDesc desc = {{1, 2}, 1};
  OpRunner runner(plain.MakeOp({desc}), {desc});
  const Values labels = {1};
  runner.batch().labels = labels;
  runner.SetInput(0, {0.5f, 0.5f});
  runner.Forward();
  EXPECT_NEAR(runner.Output()[0], std::log(2.0), 1e-6);
  runner.BackwardInput();
  EXPECT_NEAR(runner.InputGradient()[0], 32, 1e-4);
}

/// Of [count, width] rows over their norms, and of a gradient brought back.
Doubles Normalised(const Doubles& rows, int64_t width, Doubles* norms) {
  Doubles unit = rows;
  for (size_t begin = 0; begin < rows.size(); begin += width) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += rows[begin + i] * rows[begin + i];
    norms->push_back(std::max(std::sqrt(sum), 1e-12));
    for (int64_t i = 0; i < width; ++i) unit[begin + i] /= norms->back();
  }
  return unit;
}
void Back(const Doubles& unit, const Doubles& norms, int64_t width, Doubles* gradient) {
  for (size_t row = 0; row < norms.size(); ++row) {
    double along = 0;
    for (int64_t i = 0; i < width; ++i) along += unit[row * width + i] * (*gradient)[row * width + i];
    for (int64_t i = 0; i < width; ++i) {
      double& value = (*gradient)[row * width + i];
      value = (value - along * unit[row * width + i]) / norms[row];
    }
  }
}

/// A head as users write it: a product with `normalize` and a loss with a margin.
TEST(MarginLoss, BehindANormalisedProduct) {
  constexpr int64_t kWidth = 7;
  const int64_t rows = std::ssize(kLabels);
  const Values features = RandomValues(rows * kWidth, 6, -2, 2),
               weights = RandomValues(kClasses * kWidth, 7, -0.5f, 0.5f);
  for (const Margin& margin : kMargins) {
    SCOPED_TRACE(margin.text());
    Doubles x_norms, w_norms;
    const Doubles x = Normalised({features.begin(), features.end()}, kWidth, &x_norms);
    const Doubles w = Normalised({weights.begin(), weights.end()}, kWidth, &w_norms);
    Doubles cosines;
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t c = 0; c < kClasses; ++c) {
        cosines.push_back(std::inner_product(&x[n * kWidth], &x[n * kWidth] + kWidth, &w[c * kWidth], 0.0));
      }
    }
    const Reference loss(margin, cosines, kLabels, kIgnored);
    Doubles dx(x.size()), dw(w.size());
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t c = 0; c < kClasses; ++c) {
        for (int64_t i = 0; i < kWidth; ++i) {
          dx[n * kWidth + i] += loss.gradient[n * kClasses + c] * w[c * kWidth + i];
          dw[c * kWidth + i] += loss.gradient[n * kClasses + c] * x[n * kWidth + i];
        }
      }
    }
    Back(x, x_norms, kWidth, &dx);
    Back(w, w_norms, kWidth, &dw);

    LayerUnderTest head(R"(name: "head" type: "InnerProduct" bottom: "x" top: "cosines"
                           inner_product_param { num_output: 5 normalize: true bias_term: false })");
    head.context().channel_end = head.context().channel_count = kClasses;
    LayerUnderTest end(LossText(margin, " loss_param { ignore_label: 2 }"));
    const TensorDesc in = {{rows, kWidth}, 1}, between = {{rows, kClasses}, 1};
    OpRunner product(head.MakeOp({in}), {in}, {{kClasses, kWidth}}), softmax(end.MakeOp({between}), {between});
    softmax.batch().labels = softmax.batch().batch_labels = kLabels;
    product.SetInput(0, features);
    product.SetParam(0, weights);
    product.Forward();
    softmax.SetInput(0, product.Output());
    softmax.Forward();
    ExpectClose(softmax.Output(), {loss.loss}, 1e-5, "loss");
    softmax.BackwardInput();
    product.SetOutputGradient(0, softmax.InputGradient());
    product.BackwardInput();
    ExpectClose(product.InputGradient(), dx, 2e-5, "features' gradient");
    product.BackwardParams();
    ExpectClose(product.ParamGradient(0), dw, 2e-5, "weights' gradient");
  }
}

}  // namespace
}  // namespace hp::test
