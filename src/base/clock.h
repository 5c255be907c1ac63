#pragma once

#include <atomic>
#include <cstdint>

namespace hp {

/// Monotonic time in nanoseconds since an arbitrary moment: only differences mean anything, and only within a process.
/// Any thread. A test puts a FakeClock in its place.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;
  static const Clock* Real();  ///< std::chrono::steady_clock; lives as long as the process
};

/// Starts at 0 and advances only by Advance. Any thread.
class FakeClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  void Advance(int64_t ns) { now_ns_ += ns; }

 private:
  std::atomic<int64_t> now_ns_{0};
};

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;

}  // namespace hp
