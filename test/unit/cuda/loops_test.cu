#include "backend/cuda/divisor.h"
#include "backend/cuda/pack.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/tiles.h"
#include "test/unit/cuda/gpu_under_test.h"

#include <gtest/gtest.h>

#include <vector>

namespace hp::test {
namespace {

TEST(Divisor, IsExactUpTo31Bits) {
  for (const int64_t divisor : {1, 2, 3, 5, 7, 13, 55, 96, 641, 3025, 65535, 65536, 65537, 0x7FFFFFFE, 0x7FFFFFFF}) {
    const Divisor fast(divisor);
    const uint32_t d = static_cast<uint32_t>(divisor);
    std::vector<uint32_t> numerators = {0, 1, d - 1, d, d + 1, 0x7FFFFFFE, 0x7FFFFFFF};
    // Around multiples of the divisor, where a rounding error would show first.
    for (uint64_t multiple = d; multiple < 0x80000000u; multiple = multiple * 9 / 7 / d * d + d) {
      numerators.insert(numerators.end(), {static_cast<uint32_t>(multiple - 1), static_cast<uint32_t>(multiple)});
    }
    for (const uint32_t n : numerators) {
      if (n > 0x7FFFFFFF) continue;
      uint32_t remainder;
      ASSERT_EQ(fast.Quotient(n, &remainder), n / d) << n << " / " << d;
      ASSERT_EQ(remainder, n % d) << n << " / " << d;
    }
  }
}

struct Count {
  int* visits;
  HP_HOST_DEVICE void operator()(int64_t i) const { ++visits[i]; }
};

TEST(ForEach, VisitsEachElementOnceAndLate) {
  for (const int64_t n : {0, 1, 255, 1000}) {
    Gpu& gpu = GpuUnderTest();
    ReachableVector<int> visits(n + 1);
    ForEach(gpu.stream(Device::kCompute), n, Count{visits.data()});
    if (UnderTest().waits) {
      EXPECT_EQ(visits, ReachableVector<int>(n + 1, 0));
    }
    ASSERT_TRUE(gpu.Synchronize().ok());
    EXPECT_EQ(visits.back(), 0);
    visits.pop_back();
    EXPECT_EQ(visits, ReachableVector<int>(n, 1));
  }
}

struct AddWidth {
  int* widths;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    for (int k = 0; k < W; ++k) widths[i + k] += W;
  }
};

TEST(ForEachPack, TakesPacksAndThenWhatIsLeft) {
  for (const int64_t n : {0, 1, 3, 4, 5, 7, 8, 1023}) {
    for (const bool packable : {false, true}) {
      Gpu& gpu = GpuUnderTest();
      ReachableVector<int> widths(n + 1), want(n + 1, 1);
      ForEachPack<4>(gpu.stream(Device::kCompute), n, packable, AddWidth{widths.data()});
      ASSERT_TRUE(gpu.Synchronize().ok());
      for (int64_t i = 0; i < n / 4 * 4 && packable; ++i) want[i] = 4;
      want[n] = 0;
      EXPECT_EQ(widths, want) << n;
    }
  }
}

TEST(Packable, WantsAllAddressesAligned) {
  alignas(16) float memory[8];
  EXPECT_TRUE(Packable({memory, memory + 4}));
  EXPECT_FALSE(Packable({memory, memory + 1}));
  EXPECT_FALSE(Packable({memory + 2}));
  EXPECT_TRUE(Packable({memory, nullptr}));
}

struct Mark {
  int64_t* visits;
  int64_t width;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const { visits[row * width + i] += 1 + row; }
};

TEST(ForEachInRows, VisitsEachPlaceOfEachRow) {
  for (const int64_t rows : {0, 1, 9}) {
    for (const int64_t width : {0, 1, 33, 700}) {
      Gpu& gpu = GpuUnderTest();
      ReachableVector<int64_t> visits(rows * width), want;
      for (int64_t row = 0; row < rows; ++row) want.insert(want.end(), width, 1 + row);
      ForEachInRows(gpu.stream(Device::kCompute), rows, width, Mark{visits.data(), width});
      ASSERT_TRUE(gpu.Synchronize().ok());
      EXPECT_EQ(visits, want);
    }
  }
}

struct FloatSums {
  using Value = float;
  const float* x;
  int64_t width;
  float* sums;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return x[row * width + i]; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& sum) const { sums[row] = sum; }
};

/// Threads t, t + 256, ... first, then thread t with t + 128, t + 64, ...: in float another order has other bits.
float SumAsABlockOfThreads(const float* x, int64_t width) {
  std::vector<float> sums(kBlockThreads);
  for (int64_t i = 0; i < width; ++i) sums[i % kBlockThreads] += x[i];
  for (size_t half = kBlockThreads / 2; half > 0; half /= 2) {
    for (size_t t = 0; t < half; ++t) sums[t] += sums[t + half];
  }
  return sums[0];
}

TEST(ReduceRows, AddsInTheOrderOfABlockOfThreads) {
  for (const int64_t width : {0, 1, 100, 256, 257, 5000}) {
    Gpu& gpu = GpuUnderTest();
    ReachableVector<float> x(2 * width), sums(2, -1);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i * 2654435761u % 10007) * (i % 3 == 0 ? 1e4f : 1e-3f);
    ReduceRows(gpu.stream(Device::kCompute), 2, width, FloatSums{x.data(), width, sums.data()});
    if (UnderTest().waits) {
      EXPECT_EQ(sums[0], -1);
    }
    ASSERT_TRUE(gpu.Synchronize().ok());
    for (int64_t row = 0; row < 2; ++row) EXPECT_EQ(sums[row], SumAsABlockOfThreads(x.data() + row * width, width));
  }
}

/// Reverses runs of 256: each thread needs what another one has put into shared memory.
struct Reverse {
  static constexpr int kFloats = kBlockThreads;
  const float* from;
  float* to;
  HP_HOST_DEVICE void Fill(int64_t tile, int thread, float* shared) const {
    shared[thread] = from[tile * kBlockThreads + thread];
  }
  HP_HOST_DEVICE void Use(int64_t tile, int thread, const float* shared) const {
    to[tile * kBlockThreads + thread] = shared[kBlockThreads - 1 - thread];
  }
};

TEST(ForTiles, AllThreadsFillBeforeAnyUses) {
  Gpu& gpu = GpuUnderTest();
  ReachableVector<float> from(3 * kBlockThreads), to(3 * kBlockThreads);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  ForTiles(gpu.stream(Device::kCompute), 3, Reverse{from.data(), to.data()});
  ASSERT_TRUE(gpu.Synchronize().ok());
  for (int i = 0; i < 3 * kBlockThreads; ++i) {
    EXPECT_EQ(to[i], static_cast<float>(i / kBlockThreads * kBlockThreads + kBlockThreads - 1 - i % kBlockThreads));
  }
}

}  // namespace
}  // namespace hp::test
