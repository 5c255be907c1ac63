#include "solvers/exchange/gloo_exchange.h"

#include "base/mutex.h"
#include "test/support/exchange_waiter.h"
#include "test/support/shared_rendezvous.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

// Gloo forgets a freeaddrinfo where no address of a host name can be bound.
extern "C" const char* __lsan_default_suppressions() { return "leak:gloo::transport::tcp::CreateDeviceAttr\n"; }

namespace hp {
namespace {

// Everybody waits for everybody: no replica may leave while another's last collective is under way.
class Barrier {
 public:
  explicit Barrier(int size) : left_(size) {}
  void Wait() {
    MutexLock lock(&mutex_);
    if (--left_ == 0) changed_.SignalAll();
    while (left_ > 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int left_ HP_GUARDED_BY(mutex_);
};

using Gradients = std::vector<std::vector<float>>;  // by parameter

GlooOptions OptionsFor(int rank, int size) {
  GlooOptions options;
  options.rank = rank;
  options.size = size;
  options.address = "127.0.0.1";
  options.key_prefix = "gloo/conv";
  return options;
}

// Runs body(rank) on a thread each, started in an order that depends on `seed`.
void OnAllRanks(int size, unsigned seed, const std::function<void(int)>& body) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::vector<std::thread> threads;
  for (int rank : order) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

Gradients MakeGradients(const std::vector<size_t>& sizes, int rank, uint64_t clock) {
  std::mt19937 random(1000 * rank + static_cast<unsigned>(clock));
  std::normal_distribution<float> normal;
  Gradients gradients;
  for (size_t size : sizes) {
    gradients.emplace_back(size);
    for (float& value : gradients.back()) value = normal(random);
  }
  return gradients;
}

// What all ranks have after `clocks` updates: [rank][clock] -> gradients.
std::vector<std::vector<Gradients>> RunReplicas(int size, const std::vector<size_t>& sizes, int clocks, unsigned seed,
                                                size_t bucket_bytes) {
  test::SharedRendezvous rendezvous;
  Barrier barrier(size);
  std::vector<std::vector<Gradients>> results(size);
  OnAllRanks(size, seed, [&](int rank) {
    GlooOptions options = OptionsFor(rank, size);
    options.bucket_bytes = bucket_bytes;
    test::ExchangeWaiter waiter;
    auto exchange = ConnectGlooExchange(options, &rendezvous, waiter.callbacks());
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    for (int clock = 0; clock < clocks; ++clock) {
      Gradients gradients = MakeGradients(sizes, rank, clock);
      for (int param = static_cast<int>(sizes.size()); param-- > 0;) (*exchange)->Add(clock, param, gradients[param]);
      (*exchange)->Flush(clock);
      ASSERT_TRUE(waiter.Wait(clock, static_cast<int>(sizes.size())).ok());
      results[rank].push_back(std::move(gradients));
    }
    barrier.Wait();
  });
  return results;
}

void ExpectSums(const std::vector<std::vector<Gradients>>& results, const std::vector<size_t>& sizes) {
  const int size = static_cast<int>(results.size());
  for (size_t clock = 0; clock < results[0].size(); ++clock) {
    std::vector<Gradients> inputs;
    for (int rank = 0; rank < size; ++rank) inputs.push_back(MakeGradients(sizes, rank, clock));
    for (size_t param = 0; param < sizes.size(); ++param) {
      for (size_t i = 0; i < sizes[param]; ++i) {
        double sum = 0;
        for (const Gradients& input : inputs) sum += input[param][i];
        ASSERT_NEAR(results[0][clock][param][i], sum, 1e-5) << "clock " << clock << " param " << param << " at " << i;
      }
    }
  }
}

void ExpectEqualBits(const Gradients& a, const Gradients& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t param = 0; param < a.size(); ++param) {
    ASSERT_EQ(a[param].size(), b[param].size());
    if (a[param].empty()) continue;
    ASSERT_EQ(0, memcmp(a[param].data(), b[param].data(), a[param].size() * sizeof(float))) << "param " << param;
  }
}

const std::vector<size_t> kMixedSizes = {96, 3 * 11 * 11 * 96, 1, 300'000, 7, 255, 70'001, 0, 64};

TEST(GlooExchange, SumsOverTwoAndThreeReplicas) {
  for (int size : {2, 3}) {
    const auto results = RunReplicas(size, kMixedSizes, 3, size, 1 << 16);
    ExpectSums(results, kMixedSizes);
    for (int rank = 1; rank < size; ++rank) {
      for (size_t clock = 0; clock < results[0].size(); ++clock)
        ExpectEqualBits(results[0][clock], results[rank][clock]);
    }
  }
}

TEST(GlooExchange, TwoRunsHaveTheSameBits) {
  const auto first = RunReplicas(3, kMixedSizes, 2, 11, 1 << 16);
  const auto second = RunReplicas(3, kMixedSizes, 2, 29, 1 << 16);
  for (int rank = 0; rank < 3; ++rank) {
    for (int clock = 0; clock < 2; ++clock) ExpectEqualBits(first[rank][clock], second[rank][clock]);
  }
}

TEST(GlooExchange, TinyParametersAloneAndMoreRanksThanValues) {
  const std::vector<size_t> sizes = {1, 2, 1};
  ExpectSums(RunReplicas(4, sizes, 2, 5, 1 << 20), sizes);
  ExpectSums(RunReplicas(4, sizes, 2, 5, 1), sizes);
}

TEST(GlooExchange, AnUpdateWithEmptyParametersFinishes) { ExpectSums(RunReplicas(2, {0, 0}, 2, 3, 1 << 20), {0, 0}); }

// Large parameters are reported while the clock is open; small ones when their bucket is full or flushed.
TEST(GlooExchange, ReportsEachParameterAsSoonAsItIsSummed) {
  test::SharedRendezvous rendezvous;
  Barrier barrier(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    GlooOptions options = OptionsFor(rank, 2);
    options.bucket_bytes = 1000 * sizeof(float);
    auto exchange = ConnectGlooExchange(options, &rendezvous, waiter.callbacks());
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    std::vector<float> large(1000, 1.0f + rank), small(10, 1.0f), other(995, 1.0f), last(1, 1.0f);
    for (uint64_t clock = 0; clock < 3; ++clock) {
      (*exchange)->Add(clock, 4, small);
      (*exchange)->Add(clock, 3, large);
      EXPECT_TRUE(waiter.WaitFor(clock, {3}).ok());
      (*exchange)->Add(clock, 2, other);
      EXPECT_TRUE(waiter.WaitFor(clock, {2, 3, 4}).ok());
      (*exchange)->Add(clock, 1, last);
      (*exchange)->Flush(clock);
      EXPECT_TRUE(waiter.WaitFor(clock, {1, 2, 3, 4}).ok());
    }
    EXPECT_FLOAT_EQ(large[999], 12);  // 3, 6, 12: each clock summed the sums of the one before
    EXPECT_FLOAT_EQ(last[0], 8);
    barrier.Wait();
  });
}

// Rank 1 never adds what rank 0 waits for.
TEST(GlooExchange, AbortEndsASumThatNeverComes) {
  test::SharedRendezvous rendezvous;
  Barrier waiting(2), aborted(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    auto exchange = ConnectGlooExchange(OptionsFor(rank, 2), &rendezvous, waiter.callbacks());
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    std::vector<float> gradient(1 << 19, 1.0f);
    if (rank == 0) {
      (*exchange)->Add(0, 0, gradient);
      (*exchange)->Flush(0);
      waiting.Wait();
      (*exchange)->Abort(Unavailable("node conv1 is lost"));
      (*exchange)->Add(1, 0, gradient);
      (*exchange)->Flush(1);
      exchange->reset();  // joins the thread that was in the collective
      EXPECT_EQ(waiter.reports(), 0);
    } else {
      waiting.Wait();
    }
    aborted.Wait();
  });
}

TEST(GlooExchange, AReplicaThatLeavesIsAFailure) {
  test::SharedRendezvous rendezvous;
  Barrier failed(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    auto exchange = ConnectGlooExchange(OptionsFor(rank, 2), &rendezvous, waiter.callbacks());
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    if (rank == 1) exchange->reset();
    if (rank == 0) {
      std::vector<float> gradient(1 << 19, 1.0f);
      (*exchange)->Add(0, 0, gradient);
      EXPECT_EQ(waiter.Wait(0, 1).code(), StatusCode::kUnavailable);
      (*exchange)->Flush(0);
      exchange->reset();
      EXPECT_EQ(waiter.reports(), 1);
    }
    failed.Wait();
  });
}

TEST(GlooExchange, RendezvousErrorsAreReturned) {
  test::SharedRendezvous rendezvous;
  rendezvous.Fail(Unavailable("node conv1 is lost"));
  const auto exchange = ConnectGlooExchange(OptionsFor(0, 2), &rendezvous, test::ExchangeWaiter().callbacks());
  ASSERT_FALSE(exchange.ok());
  EXPECT_EQ(exchange.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(exchange.status().message(), testing::HasSubstr("node conv1 is lost"));
}

TEST(GlooExchange, AnAddressOfAnotherHostIsRefused) {
  test::SharedRendezvous rendezvous;
  GlooOptions options = OptionsFor(0, 2);
  options.address = "192.0.2.1";  // TEST-NET-1
  const auto exchange = ConnectGlooExchange(options, &rendezvous, test::ExchangeWaiter().callbacks());
  ASSERT_FALSE(exchange.ok());
  EXPECT_EQ(exchange.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(exchange.status().message(), testing::HasSubstr("192.0.2.1"));
}

}  // namespace
}  // namespace hp
