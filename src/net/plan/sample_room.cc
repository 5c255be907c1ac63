#include "net/plan/sample_room.h"

#include <algorithm>
#include <cmath>

namespace hp {

int64_t SampleRoom(int64_t classes, double rate, int64_t labels) {
  constexpr double kExponent = 44;  // exp(-44) is 8e-20
  const double mean = static_cast<double>(classes) * rate, variance = mean * (1 - rate);
  // t solves t^2 = kExponent (2 variance + 2 t / 3).
  const double t = kExponent / 3 + std::sqrt(kExponent * kExponent / 9 + 2 * kExponent * variance);
  const double drawn = std::ceil(mean + t);
  if (drawn >= static_cast<double>(classes)) return std::max<int64_t>(classes, 1);
  return std::max<int64_t>(std::min(classes, static_cast<int64_t>(drawn) + std::min(labels, classes)), 1);
}

}  // namespace hp
