#include "commands/time_limit.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int64_t kMostSeconds = 1'000'000'000;  // 31 years; more would overflow in nanoseconds

}  // namespace

TimeLimit::TimeLimit(int64_t end_s, int before_s, int64_t now_s, const Clock* clock)
    : before_s_(before_s), clock_(clock) {
  if (end_s == 0 || before_s == 0) return;
  const int64_t left_s = std::clamp(end_s - now_s - before_s, -kMostSeconds, kMostSeconds);
  stop_ns_ = clock->NowNs() + left_s * kNsPerSecond;
}

std::optional<int64_t> TimeLimit::LeftNs() const {
  if (!stop_ns_) return std::nullopt;
  return std::max<int64_t>(0, *stop_ns_ - clock_->NowNs());
}

}  // namespace hp
