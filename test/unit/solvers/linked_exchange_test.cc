// The exchange with its threads, replicas as threads of this process, over links that are memory.
#include "solvers/exchange/ring_exchange.h"

#include "base/mutex.h"
#include "test/support/exchange_waiter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace hp {
namespace {

/// The links of all replicas of a ring. A write lands, and all is reported, in the thread that posts it.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(int size) {
    for (int rank = 0; rank < size; ++rank) links_.push_back(std::make_unique<Links>(this, rank));
  }
  RingLinks* links(int rank) { return links_[rank].get(); }
  /// The replica is gone: whoever has something under way with its neighbours hears of it.
  void Leave(int rank) HP_EXCLUDES(mutex_) {
    {
      MutexLock lock(&mutex_);
      gone_.insert(rank);
    }
    for (int neighbour : {Left(rank), Right(rank)}) {
      if (RingEvents* const events = EventsOf(neighbour)) events->OnBroken(Unavailable("replica %d is gone", rank));
    }
  }
  /// Posts of memory that was not registered.
  int unregistered() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return unregistered_;
  }

 private:
  class Links : public RingLinks {
   public:
    Links(MemoryNetwork* network, int rank) : network_(network), rank_(rank) {}
    void Begin(RingEvents* events) override { network_->Begin(rank_, events); }
    StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) override {
      return network_->Register(memory);
    }
    Status Grant(const LinkPlace& place, std::span<float> memory) override {
      return network_->Grant(rank_, place, memory);
    }
    Status Write(const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) override {
      return network_->Write(rank_, place, grant, source);
    }

   private:
    MemoryNetwork* const network_;
    const int rank_;
  };

  int Left(int rank) const { return (rank + size() - 1) % size(); }
  int Right(int rank) const { return (rank + 1) % size(); }
  int size() const { return static_cast<int>(links_.size()); }

  RingEvents* EventsOf(int rank) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto events = events_.find(rank);
    return events == events_.end() ? nullptr : events->second;
  }
  // What neighbours granted before this replica was there waits for it, as in a node's Gate.
  void Begin(int rank, RingEvents* events) HP_EXCLUDES(mutex_) {
    std::vector<std::function<void()>> early;
    {
      MutexLock lock(&mutex_);
      events_[rank] = events;
      early.swap(early_[rank]);
    }
    for (const auto& event : early) event();
  }
  std::shared_ptr<const void> Register(std::span<std::byte> memory) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto* const begin = reinterpret_cast<const float*>(memory.data());
    registered_[begin] = memory.size();
    return {begin, [this](const float* at) {
              MutexLock unlock(&mutex_);
              registered_.erase(at);
            }};
  }
  void Look(std::span<const float> memory) HP_REQUIRES(mutex_) {
    auto region = registered_.upper_bound(memory.data());
    const bool found = region != registered_.begin() &&
                       (--region, memory.data() + memory.size() <= region->first + region->second / sizeof(float));
    if (!found) ++unregistered_;
  }
  Status Grant(int rank, const LinkPlace& place, std::span<float> memory) HP_EXCLUDES(mutex_) {
    const int left = Left(rank);
    const LinkGrant grant{place.number, 7};
    {
      MutexLock lock(&mutex_);
      if (gone_.contains(left)) return Unavailable("replica %d is gone", left);
      Look(memory);
      places_[{rank, place}] = memory;
      if (!events_.contains(left)) {
        early_[left].push_back([this, left, place, grant] { EventsOf(left)->OnGranted(place, grant); });
        return OkStatus();
      }
    }
    EventsOf(left)->OnGranted(place, grant);
    return OkStatus();
  }
  Status Write(int rank, const LinkPlace& place, const LinkGrant& grant, std::span<const float> source)
      HP_EXCLUDES(mutex_) {
    const int right = Right(rank);
    {
      MutexLock lock(&mutex_);
      if (gone_.contains(right)) return Unavailable("replica %d is gone", right);
      Look(source);
      const std::span<float> memory = places_.at({right, place});
      EXPECT_EQ(memory.size(), source.size());
      EXPECT_EQ(grant.index, place.number);
      std::copy(source.begin(), source.end(), memory.begin());
      places_.erase({right, place});
    }
    EventsOf(right)->OnArrived(place);
    EventsOf(rank)->OnWritten(place);
    return OkStatus();
  }

  std::vector<std::unique_ptr<Links>> links_;
  Mutex mutex_;
  std::map<int, RingEvents*> events_ HP_GUARDED_BY(mutex_);
  std::map<int, std::vector<std::function<void()>>> early_ HP_GUARDED_BY(mutex_);
  std::map<std::pair<int, LinkPlace>, std::span<float>> places_ HP_GUARDED_BY(mutex_);
  std::map<const float*, size_t, std::less<>> registered_ HP_GUARDED_BY(mutex_);
  std::set<int> gone_ HP_GUARDED_BY(mutex_);
  int unregistered_ HP_GUARDED_BY(mutex_) = 0;
};

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

// Parameters are added from the last to the first, and numbered as they lie in `sizes`.
std::unique_ptr<RingExchange> Make(MemoryNetwork* network, int rank, int size, const std::vector<size_t>& sizes,
                                   size_t bucket_bytes, test::ExchangeWaiter* waiter) {
  RingPlan::Options plan;
  plan.rank = rank;
  plan.size = size;
  plan.bucket_bytes = bucket_bytes;
  plan.min_chunk_bytes = plan.max_chunk_bytes = 1 << 12;
  std::vector<int> params;
  for (int param = static_cast<int>(sizes.size()); param-- > 0;) {
    params.push_back(param);
    plan.counts.push_back(sizes[param]);
  }
  auto exchange = RingExchange::Create(RingPlan(plan), params, network->links(rank), waiter->callbacks());
  EXPECT_TRUE(exchange.ok()) << exchange.status();
  return *std::move(exchange);
}

// What all ranks have after `clocks` updates: [rank][clock] -> gradients.
std::vector<std::vector<Gradients>> RunReplicas(int size, const std::vector<size_t>& sizes, int clocks, unsigned seed,
                                                size_t bucket_bytes) {
  MemoryNetwork network(size);
  Barrier barrier(size);
  std::vector<std::vector<Gradients>> results(size);
  OnAllRanks(size, seed, [&](int rank) {
    test::ExchangeWaiter waiter;
    Gradients gradients = MakeGradients(sizes, rank, 0);
    const auto exchange = Make(&network, rank, size, sizes, bucket_bytes, &waiter);
    for (int clock = 0; clock < clocks; ++clock) {
      const Gradients fresh = MakeGradients(sizes, rank, clock);
      for (size_t param = 0; param < sizes.size(); ++param) {
        std::copy(fresh[param].begin(), fresh[param].end(), gradients[param].begin());
      }
      for (int param = static_cast<int>(sizes.size()); param-- > 0;) exchange->Add(clock, param, gradients[param]);
      exchange->Flush(clock);
      ASSERT_TRUE(waiter.Wait(clock, static_cast<int>(sizes.size())).ok());
      results[rank].push_back(gradients);
    }
    barrier.Wait();
  });
  EXPECT_EQ(network.unregistered(), 0);
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

TEST(RingExchange, SumsOverTwoAndThreeReplicas) {
  for (int size : {2, 3}) {
    const auto results = RunReplicas(size, kMixedSizes, 3, size, 1 << 16);
    ExpectSums(results, kMixedSizes);
    for (int rank = 1; rank < size; ++rank) {
      for (size_t clock = 0; clock < results[0].size(); ++clock)
        ExpectEqualBits(results[0][clock], results[rank][clock]);
    }
  }
}

TEST(RingExchange, TwoRunsHaveTheSameBits) {
  const auto first = RunReplicas(3, kMixedSizes, 2, 11, 1 << 16);
  const auto second = RunReplicas(3, kMixedSizes, 2, 29, 1 << 16);
  for (int rank = 0; rank < 3; ++rank) {
    for (int clock = 0; clock < 2; ++clock) ExpectEqualBits(first[rank][clock], second[rank][clock]);
  }
}

TEST(RingExchange, TinyParametersAloneAndMoreRanksThanValues) {
  const std::vector<size_t> sizes = {1, 2, 1};
  ExpectSums(RunReplicas(4, sizes, 2, 5, 1 << 20), sizes);
  ExpectSums(RunReplicas(4, sizes, 2, 5, 1), sizes);
}

TEST(RingExchange, AnUpdateWithEmptyParametersFinishes) { ExpectSums(RunReplicas(2, {0, 0}, 2, 3, 1 << 20), {0, 0}); }

// Large parameters are reported while the clock is open; small ones when their bucket is full, or with the last.
TEST(RingExchange, ReportsEachParameterAsSoonAsItIsSummed) {
  MemoryNetwork network(2);
  Barrier barrier(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    std::vector<float> large(1000, 1.0f + rank), small(10, 1.0f), other(995, 1.0f), last(1, 1.0f);
    const auto exchange = Make(&network, rank, 2, {1, 995, 1000, 10}, 1000 * sizeof(float), &waiter);
    for (uint64_t clock = 0; clock < 3; ++clock) {
      exchange->Add(clock, 3, small);
      exchange->Add(clock, 2, large);
      EXPECT_TRUE(waiter.WaitFor(clock, {2}).ok());
      exchange->Add(clock, 1, other);
      EXPECT_TRUE(waiter.WaitFor(clock, {1, 2, 3}).ok());
      exchange->Add(clock, 0, last);
      exchange->Flush(clock);
      EXPECT_TRUE(waiter.Wait(clock, 4).ok());
    }
    EXPECT_FLOAT_EQ(large[999], 12);  // 3, 6, 12: each clock summed the sums of the one before
    EXPECT_FLOAT_EQ(last[0], 8);
    barrier.Wait();
  });
}

// Rank 1 never adds what rank 0 waits for.
TEST(RingExchange, AbortEndsASumThatNeverComes) {
  MemoryNetwork network(2);
  Barrier waiting(2), aborted(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    std::vector<float> gradient(1 << 19, 1.0f);
    auto exchange = Make(&network, rank, 2, {gradient.size()}, 1 << 20, &waiter);
    waiting.Wait();
    if (rank == 0) {
      exchange->Add(0, 0, gradient);
      exchange->Flush(0);
      exchange->Abort(Unavailable("node conv1 is lost"));
      exchange->Add(1, 0, gradient);
      exchange->Flush(1);
      exchange.reset();  // joins the thread that was in the sum, and granted to the other one
    }
    aborted.Wait();
    EXPECT_EQ(waiter.reports(), 0);
  });
}

TEST(RingExchange, AReplicaThatLeavesIsOneFailure) {
  MemoryNetwork network(3);
  Barrier ready(3), failed(3);
  OnAllRanks(3, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    std::vector<float> gradient(1 << 19, 1.0f);
    auto exchange = Make(&network, rank, 3, {gradient.size()}, 1 << 20, &waiter);
    ready.Wait();
    if (rank == 1) network.Leave(1);
    if (rank != 1) {
      exchange->Add(0, 0, gradient);
      const Status status = waiter.Wait(0, 1);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
      EXPECT_THAT(status.message(), testing::HasSubstr("replica 1 is gone"));
      exchange->Flush(0);
    }
    failed.Wait();
    exchange.reset();
    EXPECT_EQ(waiter.reports(), rank == 1 ? 0 : 1);
  });
}

}  // namespace
}  // namespace hp
