#include "backend/cuda/add_bias.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/long_rows.h"
#include "test/unit/cuda/gpu_under_test.h"

#include <gtest/gtest.h>

#include <vector>

namespace hp::test {
namespace {

/// finished[row] = the row's sum; y = x divided by it.
struct Normalise {
  using Value = double;
  const float* x;
  int64_t width;
  float *y, *finished;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return x[row * width + i]; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& sum) const { finished[row] = static_cast<float>(sum); }
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value& sum) const {
    y[row * width + i] = static_cast<float>(x[row * width + i] / sum);
  }
};

TEST(ReduceRows, EachSeesTheWholeRow) {
  for (const bool thread_per_row : {false, true}) {
    for (const int64_t width : {1, 7, 256, 1000}) {
      Gpu& gpu = GpuUnderTest();
      const int64_t rows = 3;
      ReachableVector<float> x(rows * width), y(rows * width), finished(rows);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
      const Normalise normalise = {x.data(), width, y.data(), finished.data()};
      if (thread_per_row) {
        ReduceShortRows(gpu.stream(Device::kCompute), rows, width, normalise);
      } else {
        ReduceRows(gpu.stream(Device::kCompute), rows, width, normalise);
      }
      if (UnderTest().waits) {
        EXPECT_EQ(finished[0], 0);
      }
      ASSERT_TRUE(gpu.Synchronize().ok());
      for (int64_t row = 0; row < rows; ++row) {
        const double first = static_cast<double>(row * width + 1), last = static_cast<double>((row + 1) * width);
        const double sum = (first + last) * static_cast<double>(width) / 2;
        EXPECT_EQ(finished[row], static_cast<float>(sum));
        for (int64_t i = 0; i < width; ++i) EXPECT_FLOAT_EQ(y[row * width + i], static_cast<float>((first + i) / sum));
      }
    }
  }
}

/// Rows that are cut into pieces, which come out even or not, and those that are not.
TEST(ReduceLongRows, EachSeesTheWholeRow) {
  constexpr int64_t kPiece = hp::cuda::RowPieces::kLeastWidth;
  for (const int64_t width : {kPiece, 2 * kPiece, 3 * kPiece + 1}) {
    Gpu& gpu = GpuUnderTest();
    const hp::cuda::RowPieces rows(2, width);
    EXPECT_EQ(rows.pieces, width / kPiece);
    ReachableVector<float> x(2 * width), y(2 * width), finished(2), scratch(rows.scratch_bytes() / sizeof(float) + 1);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000);
    const Normalise normalise = {x.data(), width, y.data(), finished.data()};
    hp::cuda::ReduceLongRows(gpu.stream(Device::kCompute), rows, normalise,
                             reinterpret_cast<std::byte*>(scratch.data()));
    ASSERT_TRUE(gpu.Synchronize().ok());
    for (int64_t row = 0; row < 2; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += x[row * width + i];
      EXPECT_EQ(finished[row], static_cast<float>(sum));
      int64_t wrong = 0;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) wrong += y[i] != static_cast<float>(x[i] / sum);
      EXPECT_EQ(wrong, 0);
    }
  }
  EXPECT_FALSE(hp::cuda::RowPieces(2, 2 * kPiece - 1).cut());
  EXPECT_FALSE(hp::cuda::RowPieces(hp::cuda::RowPieces::kMostPieces, 1 << 20).cut());
  EXPECT_EQ(hp::cuda::RowPieces(64, 1'000'000).pieces, 16);
}

/// From one row to so many that they are cut into pieces which don't come out even.
TEST(ColumnSums, SumsEveryRowOnce) {
  for (const int64_t columns : {1, 5, 300}) {
    for (const int64_t rows : {1, 7, 8, 23, 3001}) {
      for (const bool add : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
        Gpu& gpu = GpuUnderTest();
        ReachableVector<float> from(rows * columns), to(columns, add ? 1.0f : -1e30f);
        std::vector<double> want(columns, add ? 1.0 : 0.0);
        for (size_t i = 0; i < from.size(); ++i) {
          from[i] = static_cast<float>(i % 97) - 40;
          want[i % columns] += from[i];
        }
        const int64_t scratch_floats = cuda::ColumnSumsScratch(rows, columns);
        ReachableVector<float> scratch(scratch_floats + 1, 12345);
        cuda::ColumnSums(gpu.stream(Device::kCompute), rows, columns, ElementType::kFloat32, from.data(), add,
                         to.data(), scratch.data());
        ASSERT_TRUE(gpu.Synchronize().ok());
        for (int64_t c = 0; c < columns; ++c) EXPECT_EQ(to[c], static_cast<float>(want[c])) << c;
        EXPECT_EQ(scratch[scratch_floats], 12345);
      }
    }
  }
}

TEST(AddBias, LeavesWhatLiesBetweenRows) {
  const int64_t columns = 5, stride = 7;
  for (const int64_t rows : {1, 16, 37}) {
    Gpu& gpu = GpuUnderTest();
    ReachableVector<float> y(rows * stride), bias(columns);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i);
    for (int64_t c = 0; c < columns; ++c) bias[c] = static_cast<float>(1000 * (c + 1));
    cuda::AddBias(gpu.stream(Device::kCompute), rows, columns, stride, bias.data(), ElementType::kFloat32, y.data());
    ASSERT_TRUE(gpu.Synchronize().ok());
    for (int64_t i = 0; i < rows * stride; ++i) {
      const int64_t c = i % stride;
      EXPECT_EQ(y[i], static_cast<float>(i) + (c < columns ? bias[c] : 0)) << i;
    }
  }
}

}  // namespace
}  // namespace hp::test
