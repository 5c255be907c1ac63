#pragma once

#include "base/host_device.h"

#include "glog/logging.h"

#include <cstdint>

namespace hp {

/// Division by a number that is known before the kernel starts: a multiplication and a shift where a GPU would need
/// some 20 instructions. Exact for numerators below 2^31.
/// Source: Granlund, Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994.
class Divisor {
 public:
  /// @param divisor 1 to 2^31 - 1 (CHECK).
  explicit Divisor(int64_t divisor) : divisor_(static_cast<uint32_t>(divisor)) {
    CHECK(divisor > 0 && divisor <= INT32_MAX) << divisor;
    while ((uint64_t{1} << log_) < divisor_) ++log_;
    multiplier_ = static_cast<uint32_t>(((uint64_t{1} << (31 + log_)) + divisor_ - 1) / divisor_);
  }

  HP_HOST_DEVICE uint32_t value() const { return divisor_; }
  /// n / divisor, rounded down; n < 2^31.
  HP_HOST_DEVICE uint32_t Quotient(uint32_t n) const {
    return static_cast<uint32_t>((uint64_t{n} * multiplier_) >> (31 + log_));
  }
  /// The same. @param remainder n % divisor.
  HP_HOST_DEVICE uint32_t Quotient(uint32_t n, uint32_t* remainder) const {
    const uint32_t quotient = Quotient(n);
    *remainder = n - quotient * divisor_;
    return quotient;
  }

 private:
  uint32_t divisor_;
  uint32_t multiplier_ = 0;  // 2^(31 + log) / divisor, rounded up
  uint32_t log_ = 0;         // of the divisor, rounded up
};

}  // namespace hp
