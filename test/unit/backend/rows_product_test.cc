// Products with rows of weights beside sums in double: any number of features and columns, neighbours and samples, and
// the same bits by one thread and by several.
#include "backend/cpu/rows_product.h"

#include "test/unit/backend/op_test_util.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <tuple>
#include <vector>

namespace hp::test {
namespace {

/// Rows of features, columns, rows of weights, and whether these are a sample.
using Case = std::tuple<int64_t, int64_t, int64_t, bool>;

class RowsProductTest : public testing::TestWithParam<Case> {
 protected:
  RowsProductTest() {
    const int64_t all = sampled_ ? 3 * count_ + 1 : count_;
    for (int64_t i = 0; i < count_; ++i) classes_.push_back(3 * i + i % 2);
    x_ = RandomValues(rows_ * columns_, 1);
    weights_ = RandomValues(all * kStride, 2);
    dy_ = RandomValues(rows_ * (count_ + 3), 3);
  }

  WeightRows Weights() const {
    return {weights_.data(), kStride, columns_, sampled_ ? classes_.data() : nullptr, count_};
  }
  float Weight(int64_t i, int64_t k) const { return weights_[(sampled_ ? classes_[i] : i) * kStride + k]; }
  double InverseNormOf(int64_t i) const {
    double sum = 0;
    for (int64_t k = 0; k < columns_; ++k) sum += double{Weight(i, k)} * Weight(i, k);
    return 1 / std::sqrt(sum);
  }
  /// [rows][count + 3], the numbers behind each row untouched.
  Values Multiply(bool normalize, Values* norms) const {
    Values packed(PackedFeatures(rows_, columns_), std::nanf("")), y(rows_ * (count_ + 3), 7);
    norms->resize(count_);
    PackFeatures(rows_, columns_, x_.data(), 0, packed.data());
    MultiplyRows(rows_, packed.data(), Weights(), normalize ? norms->data() : nullptr, y.data(), count_ + 3);
    return y;
  }
  /// [rows][columns + 2], the numbers behind each row untouched.
  Values Sum(const float* norms) const {
    Values d_x(rows_ * (columns_ + 2), 7);
    SumRows(rows_, dy_.data(), count_ + 3, Weights(), norms, d_x.data(), columns_ + 2);
    return d_x;
  }

  static constexpr int64_t kStride = 530;  // at least any case's columns
  const int64_t rows_ = std::get<0>(GetParam()), columns_ = std::get<1>(GetParam()), count_ = std::get<2>(GetParam());
  const bool sampled_ = std::get<3>(GetParam());
  std::vector<int64_t> classes_;
  Values x_, weights_, dy_;
};

TEST_P(RowsProductTest, Multiplies) {
  for (const bool normalize : {false, true}) {
    Values norms;
    const Values y = Multiply(normalize, &norms);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t i = 0; i < count_; ++i) {
        double wanted = 0;
        for (int64_t k = 0; k < columns_; ++k) wanted += double{x_[r * columns_ + k]} * Weight(i, k);
        if (normalize) wanted *= InverseNormOf(i);
        ASSERT_NEAR(y[r * (count_ + 3) + i], wanted, 2e-5 * columns_) << "row " << r << ", weights " << i;
        if (normalize) {
          ASSERT_NEAR(norms[i] / InverseNormOf(i), 1, 1e-5);
        }
      }
      for (int64_t i = count_; i < count_ + 3; ++i) ASSERT_EQ(y[r * (count_ + 3) + i], 7) << "behind row " << r;
    }
  }
}

TEST_P(RowsProductTest, Sums) {
  const Values norms = RandomValues(count_, 4, 0.5, 2);
  for (const float* factors : {static_cast<const float*>(nullptr), norms.data()}) {
    const Values d_x = Sum(factors);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t k = 0; k < columns_; ++k) {
        double wanted = 0;
        for (int64_t i = 0; i < count_; ++i) {
          wanted += double{dy_[r * (count_ + 3) + i]} * (factors == nullptr ? 1 : factors[i]) * Weight(i, k);
        }
        ASSERT_NEAR(d_x[r * (columns_ + 2) + k], wanted, 2e-5 * (1 + count_)) << "row " << r << ", column " << k;
      }
      for (int64_t k = columns_; k < columns_ + 2; ++k) ASSERT_EQ(d_x[r * (columns_ + 2) + k], 7) << "behind row " << r;
    }
  }
}

TEST_P(RowsProductTest, BitsDoNotDependOnThreads) {
  const int before = omp_get_max_threads();
  Values norms;
  omp_set_num_threads(1);
  const Values y = Multiply(true, &norms), d_x = Sum(norms.data());
  for (const int threads : {2, 3, 7, 16}) {
    omp_set_num_threads(threads);
    Values again;
    EXPECT_EQ(Multiply(true, &again), y) << threads << " threads";
    EXPECT_EQ(again, norms) << threads << " threads";
    EXPECT_EQ(Sum(norms.data()), d_x) << threads << " threads";
  }
  omp_set_num_threads(before);
}

// Around vectors of 8 and 16 features, groups of 64, tiles of 4 to 8 rows, and blocks of 48 and 64 rows of weights.
INSTANTIATE_TEST_SUITE_P(Shapes, RowsProductTest,
                         testing::Values(Case{1, 1, 1, false}, Case{1, 530, 65, true}, Case{3, 17, 47, false},
                                         Case{16, 512, 130, true}, Case{16, 512, 130, false}, Case{17, 100, 64, true},
                                         Case{33, 49, 97, false}, Case{48, 64, 48, true}, Case{64, 130, 49, false},
                                         Case{65, 48, 129, true}, Case{150, 33, 66, false}, Case{9, 96, 0, true}));

}  // namespace
}  // namespace hp::test
