#include "backend/cpu/lrn.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hp::test {
namespace {

TEST(InverseFourthRoot, IsExactEnoughOverTheWholeRange) {
  for (double exponent = -30; exponent < 30; exponent += 0.0173) {
    const float s = static_cast<float>(std::pow(10.0, exponent));
    const double want = std::pow(static_cast<double>(s), -0.25);
    EXPECT_NEAR(InverseFourthRoot<1>(FloatVec<1>{s})[0] / want, 1.0, 2.5e-7) << s;
  }
}

}  // namespace
}  // namespace hp::test
