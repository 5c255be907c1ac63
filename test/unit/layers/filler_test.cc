#include "layers/filler.h"

#include "base/philox.h"
#include "layers/traits/filler_check.h"
#include "test/unit/layers/layer_test_util.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

namespace hp::test {
namespace {

using testing::HasSubstr;

caffe::FillerParameter ParseFiller(const std::string& text) {
  caffe::FillerParameter filler;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &filler)) << text;
  return filler;
}

Values Fill(const std::string& text, const Shape& shape, uint64_t seed = 5, const std::string& name = "ip.0") {
  const caffe::FillerParameter filler = ParseFiller(text);
  EXPECT_TRUE(CheckFiller(filler, shape, "test").ok());
  Values values(shape.count(), std::nanf(""));
  FillParam(&filler, shape, Block::Whole(shape), seed, name, values.data());
  return values;
}

double Mean(const Values& values) {
  double sum = 0;
  for (float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double Deviation(const Values& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (float value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

const char* const kFillers[] = {"type: 'constant' value: 0.25",
                                "type: 'uniform' min: -1 max: 3",
                                "type: 'gaussian' mean: 1 std: 0.5",
                                "type: 'gaussian' std: 0.5 sparse: 3",
                                "type: 'xavier'",
                                "type: 'msra' variance_norm: FAN_OUT",
                                "type: 'positive_unitball'"};

// Every block, cut by rows, columns or both, however uneven or empty, is that of the blob filled at once, bit for bit.
TEST(Filler, AnyDivisionIntoBlocksMakesTheWhole) {
  for (const Shape& shape : {Shape{7, 23}, Shape{6, 3, 2, 2}, Shape{90, 100}}) {
    const int64_t rows = shape[0], columns = ColumnsOf(shape);
    for (const char* text : kFillers) {
      const caffe::FillerParameter filler = ParseFiller(text);
      const Values whole = Fill(text, shape);
      for (int64_t row : {int64_t{0}, int64_t{1}, rows / 2, rows}) {
        for (int64_t col : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{5}, columns - 1, columns}) {
          for (const Block& block : {Block{0, row, 0, col}, Block{0, row, col, columns}, Block{row, rows, 0, col},
                                     Block{row, rows, col, columns}}) {
            Values filled(block.count()), cut(block.count());
            FillParam(&filler, shape, block, 5, "ip.0", filled.data());
            CutBlock(whole, shape, block, cut);
            ASSERT_EQ(filled, cut) << text << " [" << shape << "]: " << block;
          }
        }
      }
    }
  }
}

TEST(Filler, AnyDivisionOfKernelsMakesTheWhole) {
  const caffe::FillerParameter filler = ParseFiller("type: 'bilinear'");
  const Shape shape = {5, 2, 4, 4};
  const Values whole = Fill("type: 'bilinear'", shape);
  for (const Block& block : {Block{0, 2, 0, 32}, Block{2, 5, 0, 32}, Block{1, 4, 3, 17}, Block{4, 5, 31, 32}}) {
    Values filled(block.count()), cut(block.count());
    FillParam(&filler, shape, block, 5, "up.0", filled.data());
    CutBlock(whole, shape, block, cut);
    EXPECT_EQ(filled, cut) << block;
  }
}

TEST(Filler, WritesNothingBesideItsBlock) {
  for (const char* text : kFillers) {
    const caffe::FillerParameter filler = ParseFiller(text);
    Values values(8, 77);
    FillParam(&filler, {7, 23}, {2, 5, 9, 11}, 5, "ip.0", values.data() + 1);
    EXPECT_EQ(values[0], 77) << text;
    EXPECT_EQ(values[7], 77) << text;
  }
}

TEST(Filler, NoFillerMeansZeros) {
  Values values(10, 77);
  FillParam(nullptr, {10}, {0, 10, 0, 1}, 5, "ip.1", values.data());
  EXPECT_EQ(values, Values(10, 0.0f));
}

TEST(Filler, ConstantDefaultsToZero) {
  EXPECT_EQ(Fill("", {4}), Values(4, 0.0f));
  EXPECT_EQ(Fill("value: -2", {4}), Values(4, -2.0f));
}

TEST(Filler, ElementsAreWordsOfTheParametersStream) {
  const Values values = Fill("type: 'uniform' min: -1 max: 3", {2, 9}, 11, "conv1.0");
  const uint64_t key = StreamKey(11, "conv1.0", "filler");
  for (int i = 0; i < 18; ++i) {
    const double unit = ((Philox4x32(key, 0, i / 4)[i % 4] >> 8) + 1) / 16777216.0;
    EXPECT_FLOAT_EQ(values[i], static_cast<float>(-1 + 4 * unit)) << i;
  }
}

TEST(Filler, SeedAndNameMatter) {
  const std::string text = "type: 'gaussian'";
  const Values values = Fill(text, {50, 20});
  EXPECT_EQ(values, Fill(text, {50, 20}));
  EXPECT_NE(values, Fill(text, {50, 20}, 6));
  EXPECT_NE(values, Fill(text, {50, 20}, 5, "ip.1"));
}

TEST(Filler, UniformFillsItsRange) {
  const Values values = Fill("type: 'uniform' min: -1 max: 3", {100, 1000});
  EXPECT_NEAR(Mean(values), 1, 0.02);
  EXPECT_NEAR(Deviation(values), 4 / std::sqrt(12.0), 0.02);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 3);
  EXPECT_LT(*std::min_element(values.begin(), values.end()), -0.999);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 2.999);
}

TEST(Filler, GaussianHasItsMoments) {
  const Values values = Fill("type: 'gaussian' mean: 0.5 std: 2", {100, 1000});
  EXPECT_NEAR(Mean(values), 0.5, 0.03);
  EXPECT_NEAR(Deviation(values), 2, 0.03);
  double within_one = 0, within_two = 0, fourth = 0;
  for (float value : values) {
    const double z = (value - 0.5) / 2;
    within_one += std::fabs(z) < 1;
    within_two += std::fabs(z) < 2;
    fourth += z * z * z * z;
  }
  EXPECT_NEAR(within_one / 1e5, 0.6827, 0.006);
  EXPECT_NEAR(within_two / 1e5, 0.9545, 0.004);
  EXPECT_NEAR(fourth / 1e5, 3, 0.15);
}

/// Box and Muller make elements in pairs; a slip there would tie neighbours together.
TEST(Filler, NeighboursAreNotCorrelated) {
  const Values values = Fill("type: 'gaussian'", {100, 1000});
  for (size_t lag : {1, 2, 3, 4}) {
    double sum = 0;
    for (size_t i = 0; i + lag < values.size(); ++i) sum += static_cast<double>(values[i]) * values[i + lag];
    EXPECT_NEAR(sum / 1e5, 0, 0.015) << "lag " << lag;
  }
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 90000u);
}

TEST(Filler, SparseGaussianKeepsAFewOfEachOutput) {
  const Values values = Fill("type: 'gaussian' std: 1 sparse: 10", {100, 500});
  double kept = 0;
  for (float value : values) kept += value != 0;
  EXPECT_NEAR(kept / 50000, 0.1, 0.006);  // Caffe: probability sparse / num_output
  const Values dense = Fill("type: 'gaussian' std: 1", {100, 500});
  for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(values[i] == 0 || values[i] == dense[i]);
  EXPECT_EQ(Fill("type: 'gaussian' sparse: 0", {4, 4}), Values(16, 0.0f));
}

/// Convolution weights [O, C / group, kH, kW]: fan-in C / group * kH * kW, fan-out O * kH * kW.
TEST(Filler, XavierAndMsraScaleByFan) {
  const Shape shape = {40, 10, 5, 5};
  const double fan_in = 250, fan_out = 1000;
  const auto limit = [&](const std::string& text) {
    const Values values = Fill(text, shape);
    return *std::max_element(values.begin(), values.end());
  };
  EXPECT_NEAR(limit("type: 'xavier'"), std::sqrt(3 / fan_in), 1e-3);
  EXPECT_NEAR(limit("type: 'xavier' variance_norm: FAN_OUT"), std::sqrt(3 / fan_out), 1e-3);
  EXPECT_NEAR(limit("type: 'xavier' variance_norm: AVERAGE"), std::sqrt(3 / 625.0), 1e-3);
  EXPECT_NEAR(Deviation(Fill("type: 'msra'", shape)), std::sqrt(2 / fan_in), 2e-3);
  EXPECT_NEAR(Deviation(Fill("type: 'msra' variance_norm: FAN_OUT", shape)), std::sqrt(2 / fan_out), 1e-3);
  EXPECT_NEAR(Deviation(Fill("type: 'msra' variance_norm: AVERAGE", shape)), std::sqrt(2 / 625.0), 1e-3);
  EXPECT_NEAR(Mean(Fill("type: 'msra'", shape)), 0, 3e-3);
}

/// Kernels worked out by hand, each the product of a row of weights with itself.
TEST(Filler, BilinearKernelsInterpolate) {
  const std::vector<std::vector<double>> rows = {{1},
                                                 {0.5, 0.5},
                                                 {0.5, 1, 0.5},
                                                 {0.25, 0.75, 0.75, 0.25},
                                                 {1 / 3.0, 2 / 3.0, 1, 2 / 3.0, 1 / 3.0},
                                                 {0.125, 0.375, 0.625, 0.875, 0.875, 0.625, 0.375, 0.125}};
  for (const std::vector<double>& row : rows) {
    const int64_t size = static_cast<int64_t>(row.size());
    // Caffe: f = ceil(size / 2), c = (size - 1) / (2 f), element (1 - |x / f - c|) (1 - |y / f - c|).
    // halves.
    const double half = std::ceil(static_cast<double>(size) / 2), center = static_cast<double>(size - 1) / (2 * half);
    const Values values = Fill("type: 'bilinear'", {3, 2, size, size});
    for (int64_t i = 0; i < 6 * size * size; ++i) {
      const int64_t x = i % size, y = i / size % size;
      EXPECT_FLOAT_EQ(values[i], static_cast<float>(row[x] * row[y])) << size << ", element " << i;
      const double formula = (1 - std::fabs(static_cast<double>(x) / half - center)) *
                             (1 - std::fabs(static_cast<double>(y) / half - center));
      EXPECT_FLOAT_EQ(values[i], static_cast<float>(formula)) << size << ", element " << i;
    }
  }
}

TEST(Filler, RowsOfAPositiveUnitballAddUpToOne) {
  for (const Shape& shape : {Shape{7, 23}, Shape{3, 2, 40, 70}, Shape{5}}) {
    const Values values = Fill("type: 'positive_unitball'", shape), uniform = Fill("type: 'uniform'", shape);
    const int64_t columns = shape.count() / shape[0];
    for (int64_t row = 0; row < shape[0]; ++row) {
      double sum = 0, drawn = 0;
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) sum += values[i], drawn += uniform[i];
      EXPECT_NEAR(sum, 1, 1e-5);
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        EXPECT_GT(values[i], 0);
        EXPECT_FLOAT_EQ(values[i], static_cast<float>(uniform[i] / drawn)) << shape << ", element " << i;
      }
    }
  }
}

TEST(Filler, BadOnesAreNamed) {
  const auto error = [](const std::string& text) {
    const Status status = CheckFiller(ParseFiller(text), {10, 20}, "layer \"ip\": weight_filler");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(
      error("type: 'bilinear'"),
      "layer \"ip\": weight_filler: type \"bilinear\" does not fit shape [10 20]; expected four axes, the last two "
      "of one size (a square kernel)");
  const auto kernel_error = [](const Shape& shape) {
    return CheckFiller(ParseFiller("type: 'bilinear'"), shape, "w").message();
  };
  EXPECT_EQ(kernel_error({4, 2, 3, 3}), "");
  EXPECT_THAT(kernel_error({4, 2, 3, 5}), HasSubstr("does not fit shape [4 2 3 5]"));
  EXPECT_THAT(kernel_error({2, 3, 3}), HasSubstr("does not fit shape [2 3 3]"));
  EXPECT_THAT(error("type: 'glorot'"), HasSubstr("unknown filler type \"glorot\"; expected one of constant, uniform"));
  EXPECT_THAT(error("type: 'uniform' min: 2 max: 1"), HasSubstr("min 2 is greater than max 1"));
  EXPECT_THAT(error("type: 'gaussian' std: -1"), HasSubstr("std -1 is negative"));
  EXPECT_THAT(error("type: 'xavier' sparse: 3"),
              HasSubstr("sparse: 3 is only for type \"gaussian\", not for \"xavier\""));
  EXPECT_THAT(error("type: 'gaussian' sparse: 11"), HasSubstr("sparse 11 is not in -1..10"));
}

}  // namespace
}  // namespace hp::test
