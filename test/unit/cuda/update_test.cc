#include "backend/cpu/update.h"

#include "test/unit/backend/op_test_util.h"

#include <cmath>
#include <limits>

namespace hp::test {
namespace {

Backend& Gpu() { return *UnderTest().backend; }

void Synchronize() { ASSERT_TRUE(UnderTest().device->Synchronize().ok()); }

struct Parameter {
  Values gradient, history, weights;
  explicit Parameter(int64_t n)
      : gradient(RandomValues(n, 1)), history(RandomValues(n, 2)), weights(RandomValues(n, 3)) {
    if (n > 2) weights[1] = 0;  // sign(0) is 0
  }
};

/// Beside the CPU's, whose test holds it to the equations. Contraction into fused multiplications may differ.
TEST(SgdUpdate, IsTheCpus) {
  for (const float l1 : {0.0f, 0.03f}) {
    const SgdCoefficients c = {.rate = 0.1f, .momentum = 0.9f, .l2 = 0.02f, .l1 = l1, .gradient_scale = 0.25f};
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 1000, 5003}) {
      for (const int64_t begin : {int64_t{0}, std::min<int64_t>(n, 3)}) {  // a part that is not aligned
        Parameter cpu(n), gpu(n);
        hp::SgdUpdate(c, n - begin, cpu.gradient.data() + begin, cpu.history.data() + begin,
                      cpu.weights.data() + begin);
        Gpu().SgdUpdate(c, n - begin, gpu.gradient.data() + begin, gpu.history.data() + begin,
                        gpu.weights.data() + begin);
        if (UnderTest().waits) {
          EXPECT_EQ(gpu.weights, Parameter(n).weights);
        }
        Synchronize();
        ExpectNear(gpu.history, cpu.history, 1e-6f, "history");
        ExpectNear(gpu.weights, cpu.weights, 1e-6f, "weights");
      }
    }
  }
}

double SumOfSquaresNow(const Values& values) {
  ReachableVector<double> sum = {-1};
  Gpu().SumOfSquares(values.data(), static_cast<int64_t>(values.size()), sum.data());
  if (UnderTest().waits) {
    EXPECT_EQ(sum[0], -1);
  }
  Synchronize();
  return sum[0];
}

/// Below, at and beyond the size from which the sum is cut into as many parts as it ever is.
TEST(SumOfSquares, AddsInDouble) {
  for (const int64_t n : {0, 1, 255, 4096, 4097, 70'000, 4096 * 1024, 4096 * 1024 + 1, 5'000'003}) {
    const Values values = RandomValues(n, 5);
    long double exact = 0;
    for (const float value : values) exact += static_cast<long double>(value) * value;
    const double want = static_cast<double>(exact);
    EXPECT_NEAR(SumOfSquaresNow(values), want, 1e-13 * want) << n;
  }
  EXPECT_NEAR(SumOfSquaresNow(Values(70'000, 1e-30f)), 7e-56, 1e-61);  // far below the least float
}

TEST(SumOfSquares, GivesTheSameBitsAgain) {
  const Values values = RandomValues(300'000, 6);
  EXPECT_EQ(SumOfSquaresNow(values), SumOfSquaresNow(values));
}

/// Two sums wait in the stream at once: the second must not spoil what the first keeps between its kernels.
TEST(SumOfSquares, SumsInARowDoNotMix) {
  const Values a = RandomValues(20'000, 7), b = RandomValues(20'000, 8);
  const double want_a = SumOfSquaresNow(a), want_b = SumOfSquaresNow(b);
  ReachableVector<double> sums(2);
  Gpu().SumOfSquares(a.data(), 20'000, &sums[0]);
  Gpu().SumOfSquares(b.data(), 20'000, &sums[1]);
  Synchronize();
  EXPECT_EQ(sums[0], want_a);
  EXPECT_EQ(sums[1], want_b);
}

TEST(SumOfSquares, SeesEveryValueThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0, 4095, 4096, 69'999}) {
      Values values(70'000, 1.0f);
      values[at] = bad;
      EXPECT_FALSE(std::isfinite(SumOfSquaresNow(values))) << bad << " at " << at;
    }
  }
  EXPECT_TRUE(std::isfinite(SumOfSquaresNow(Values(1000, std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace hp::test
