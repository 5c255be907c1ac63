// Spatial pyramid pooling, beside windows written out here.
#include "test/unit/layers/layer_test_util.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

using testing::HasSubstr;

std::string Spp(int height, const std::string& pool) {
  return "name: \"x\" type: \"SPP\" bottom: \"a\" top: \"b\" spp_param { pyramid_height: " + std::to_string(height) +
         " pool: " + pool + " }";
}

struct Axis {
  int64_t kernel, pad, size;
  /// Where window `i` begins and ends, and its end with the padding behind the image.
  int64_t begin(int64_t i) const { return std::max<int64_t>(i * kernel - pad, 0); }
  int64_t end(int64_t i) const { return std::min(i * kernel - pad + kernel, size); }
  int64_t width(int64_t i) const { return std::min(i * kernel - pad + kernel, size + pad) - (i * kernel - pad); }
};

Axis Divide(int64_t size, int64_t bins) {
  const int64_t kernel = (size + bins - 1) / bins;
  return {kernel, (kernel * bins - size + 1) / 2, size};
}

/// [N, C * windows]: of each level a value for each channel and window.
Values Reference(int height, bool average, const Shape& in, const Values& x) {
  Values y;
  for (int64_t n = 0; n < in[0]; ++n) {
    for (int64_t bins = 1; bins < int64_t{1} << height; bins *= 2) {
      const Axis rows = Divide(in[2], bins), columns = Divide(in[3], bins);
      for (int64_t c = 0; c < in[1]; ++c) {
        for (int64_t i = 0; i < bins; ++i) {
          for (int64_t j = 0; j < bins; ++j) {
            double sum = 0;
            float most = -1e30f;
            for (int64_t h = rows.begin(i); h < rows.end(i); ++h) {
              for (int64_t w = columns.begin(j); w < columns.end(j); ++w) {
                const float value = x[((n * in[1] + c) * in[2] + h) * in[3] + w];
                sum += value;
                most = std::max(most, value);
              }
            }
            y.push_back(average ? static_cast<float>(sum / static_cast<double>(rows.width(i) * columns.width(j)))
                                : most);
          }
        }
      }
    }
  }
  return y;
}

TEST(Spp, PoolsOnEachLevel) {
  for (const char* const pool : {"MAX", "AVE"}) {
    for (const auto& [height, shape] : std::vector<std::pair<int, Shape>>{
             {3, {2, 3, 9, 12}}, {2, {2, 16, 5, 4}}, {3, {1, 8, 8, 8}}, {1, {2, 4, 3, 5}}}) {
      for (const TensorDesc& in : LayoutsOf(shape)) {
        SCOPED_TRACE(std::string(pool) + " " + std::to_string(height) + ", " + Describe(in));
        LayerUnderTest layer(Spp(height, pool));
        OpRunner runner(layer.MakeOp({in}), {in});
        runner.SetInput(0, DistinctValues(in.count(), 1));
        runner.Forward();
        const Values expected = Reference(height, pool == std::string("AVE"), shape, runner.input(0));
        ASSERT_EQ(runner.Output().size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(runner.Output()[i], expected[i], 1e-5) << i;
        CheckGradients(&runner);
      }
    }
  }
}

TEST(Spp, TopsOfOneLevelAreMapsAndOfMoreAreRows) {
  EXPECT_EQ(LayerUnderTest(Spp(1, "MAX"))->OutputShapes({{2, 3, 5, 7}}).value()[0], (Shape{2, 3, 1, 1}));
  EXPECT_EQ(LayerUnderTest(Spp(3, "MAX"))->OutputShapes({{2, 3, 9, 12}}).value()[0], (Shape{2, 3 * (1 + 4 + 16)}));
}

TEST(Spp, Refusals) {
  const auto error = [](int height, const std::string& pool, const Shape& in) {
    return LayerUnderTest(Spp(height, pool))->OutputShapes({in}).status().message();
  };
  EXPECT_EQ(error(3, "MAX", {2, 3, 5, 8}),
            "layer \"x\": spp_param { pyramid_height: 3 }: bottom shape [2 3 5 8] is too small for 4 x 4 windows");
  EXPECT_THAT(error(2, "STOCHASTIC", {2, 3, 5, 8}), HasSubstr("needs a pad for 2 x 2 windows"));
  EXPECT_EQ(error(2, "STOCHASTIC", {2, 3, 6, 8}), "");
  EXPECT_THAT(error(2, "MAX", {2, 3}), HasSubstr("expected [rows, channels, height, width]"));
  EXPECT_EQ(CreateError(Spp(0, "MAX")), "layer \"x\": spp_param { pyramid_height: 0 }: expected 1 to 12");
}

}  // namespace
}  // namespace hp::test
