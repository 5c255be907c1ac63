// Sums of outer products of every shape that tiles and panels leave a rest of, beside a loop over their elements.
#include "backend/cpu/outer_product.h"

#include "test/unit/backend/op_test_util.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

struct OuterCase {
  int64_t all_rows;
  Range rows;
  int64_t outputs, columns;
};

class OuterProductTest : public testing::TestWithParam<OuterCase> {
 protected:
  static constexpr int64_t kGap = 3;  ///< floats between rows of dy and of the sums
  const OuterCase case_ = GetParam();
  const int64_t dy_stride_ = case_.outputs + kGap, stride_ = case_.columns + kGap;
  const Values x_ = RandomValues(case_.all_rows * case_.columns, 1);
  const Values dy_ = RandomValues(case_.all_rows * dy_stride_, 2);
  const Values before_ = RandomValues(case_.outputs * stride_, 3);

  /// The gaps of the sums too, which stay what they were.
  Values ByElement(bool accumulate) const {
    Values sums = before_;
    for (int64_t o = 0; o < case_.outputs; ++o) {
      for (int64_t k = 0; k < case_.columns; ++k) {
        double sum = accumulate ? before_[o * stride_ + k] : 0;
        for (int64_t r = case_.rows.begin; r < case_.rows.end; ++r) {
          sum += static_cast<double>(dy_[r * dy_stride_ + o]) * x_[r * case_.columns + k];
        }
        sums[o * stride_ + k] = static_cast<float>(sum);
      }
    }
    return sums;
  }
  Values Computed(bool accumulate, int64_t piece) const {
    // What is behind the columns of the last panel must not count.
    Values packed(PackedColumns(case_.all_rows, case_.columns), NAN), sums = before_;
    PackColumns(case_.all_rows, case_.columns, x_.data(), packed.data());
    for (int64_t o = 0; o < case_.outputs; o += piece) {
      OuterProductSum({packed.data(), case_.all_rows, case_.columns}, case_.rows, std::min(piece, case_.outputs - o),
                      dy_.data() + case_.rows.begin * dy_stride_ + o, dy_stride_, sums.data() + o * stride_, stride_,
                      accumulate);
    }
    return sums;
  }
};

TEST_P(OuterProductTest, IsTheSumOverRows) {
  for (const bool accumulate : {false, true}) {
    const Values sums = Computed(accumulate, case_.outputs);
    EXPECT_THAT(sums, testing::Pointwise(testing::FloatNear(1e-4f), ByElement(accumulate)));
    EXPECT_EQ(Computed(accumulate, 5), sums) << "in pieces of 5 outputs";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OuterProductTest,
                         testing::Values(OuterCase{1, {0, 1}, 1, 1}, OuterCase{3, {0, 3}, 24, 64},
                                         OuterCase{16, {0, 16}, 25, 250}, OuterCase{9, {4, 7}, 13, 131},
                                         OuterCase{100, {0, 100}, 7, 15}, OuterCase{100, {30, 100}, 24, 2100}));

}  // namespace
}  // namespace hp::test
