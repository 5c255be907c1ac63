// The exchange with its threads, replicas as threads of this process, over links that are memory.
#include "solvers/exchange/linked_exchange.h"

#include "base/mutex.h"
#include "solvers/exchange/direct_allreduce.h"
#include "solvers/exchange/ring.h"
#include "test/support/exchange_waiter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace hp {
namespace {

/// The links of all replicas. A write lands, and all is reported, in the thread that posts it.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(int size) {
    for (int rank = 0; rank < size; ++rank) links_.push_back(std::make_unique<Links>(this, rank));
  }
  PeerLinks* links(int rank) { return links_[rank].get(); }
  /// The replica is gone: all others hear of it.
  void Leave(int rank) HP_EXCLUDES(mutex_) {
    {
      MutexLock lock(&mutex_);
      gone_.insert(rank);
    }
    for (int peer = 0; peer < size(); ++peer) {
      PeerEvents* const events = peer == rank ? nullptr : EventsOf(peer);
      if (events != nullptr) events->OnBroken(Unavailable("replica %d is gone", rank));
    }
  }
  /// Posts of memory that was not registered.
  int unregistered() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return unregistered_;
  }

 private:
  class Links : public PeerLinks {
   public:
    Links(MemoryNetwork* network, int rank) : network_(network), rank_(rank) {}
    void Begin(PeerEvents* events) override { network_->Begin(rank_, events); }
    StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte> memory) override {
      return network_->Register(memory);
    }
    Status Grant(int peer, const LinkPlace& place, std::span<std::byte> memory) override {
      return network_->Grant(rank_, peer, place, memory);
    }
    Status Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const std::byte> source) override {
      return network_->Write(rank_, peer, place, grant, source);
    }

   private:
    MemoryNetwork* const network_;
    const int rank_;
  };

  int size() const { return static_cast<int>(links_.size()); }

  PeerEvents* EventsOf(int rank) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto events = events_.find(rank);
    return events == events_.end() ? nullptr : events->second;
  }
  // What neighbours granted before this replica was there waits for it, as in a node's Gate.
  void Begin(int rank, PeerEvents* events) HP_EXCLUDES(mutex_) {
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
    const std::byte* const begin = memory.data();
    registered_[begin] = memory.size();
    return {begin, [this](const std::byte* at) {
              MutexLock unlock(&mutex_);
              registered_.erase(at);
            }};
  }
  void Look(std::span<const std::byte> memory) HP_REQUIRES(mutex_) {
    auto region = registered_.upper_bound(memory.data());
    const bool found =
        region != registered_.begin() && (--region, memory.data() + memory.size() <= region->first + region->second);
    if (!found) ++unregistered_;
  }
  Status Grant(int rank, int peer, const LinkPlace& place, std::span<std::byte> memory) HP_EXCLUDES(mutex_) {
    const LinkGrant grant{place.number, 7};
    {
      MutexLock lock(&mutex_);
      if (gone_.contains(peer)) return Unavailable("replica %d is gone", peer);
      Look(memory);
      places_[{rank, peer, place}] = memory;
      if (!events_.contains(peer)) {
        early_[peer].push_back([this, rank, peer, place, grant] { EventsOf(peer)->OnGranted(rank, place, grant); });
        return OkStatus();
      }
    }
    EventsOf(peer)->OnGranted(rank, place, grant);
    return OkStatus();
  }
  Status Write(int rank, int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const std::byte> source)
      HP_EXCLUDES(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (gone_.contains(peer)) return Unavailable("replica %d is gone", peer);
      Look(source);
      const std::span<std::byte> memory = places_.at({peer, rank, place});
      EXPECT_EQ(memory.size(), source.size());
      EXPECT_EQ(grant.index, place.number);
      std::copy(source.begin(), source.end(), memory.begin());
      places_.erase({peer, rank, place});
    }
    EventsOf(peer)->OnArrived(rank, place);
    EventsOf(rank)->OnWritten(peer, place);
    return OkStatus();
  }

  std::vector<std::unique_ptr<Links>> links_;
  Mutex mutex_;
  std::map<int, PeerEvents*> events_ HP_GUARDED_BY(mutex_);
  std::map<int, std::vector<std::function<void()>>> early_ HP_GUARDED_BY(mutex_);
  /// By who granted, to whom.
  std::map<std::tuple<int, int, LinkPlace>, std::span<std::byte>> places_ HP_GUARDED_BY(mutex_);
  std::map<const std::byte*, size_t, std::less<>> registered_ HP_GUARDED_BY(mutex_);
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
std::unique_ptr<LinkedExchange> Make(MemoryNetwork* network, int rank, int size, const std::vector<size_t>& sizes,
                                     size_t bucket_bytes, test::ExchangeWaiter* waiter, bool rounds) {
  BlockPlan::Options plan;
  plan.rank = rank;
  plan.size = size;
  plan.bucket_bytes = bucket_bytes;
  plan.min_chunk_bytes = plan.max_chunk_bytes = 1 << 12;
  std::vector<int> params;
  for (int param = static_cast<int>(sizes.size()); param-- > 0;) {
    params.push_back(param);
    plan.counts.push_back(sizes[param]);
  }
  PeerLinks* const links = network->links(rank);
  const auto sums = [&](Allreduce::DoneSink on_done) {
    return rounds ? DirectAllreduce::Create(DirectPlan(plan), links, std::move(on_done))
                  : Ring::Create(RingPlan(plan), links, std::move(on_done));
  };
  auto exchange = LinkedExchange::Create(sums, params, links, waiter->callbacks());
  EXPECT_TRUE(exchange.ok()) << exchange.status();
  return *std::move(exchange);
}

// What all ranks have after `clocks` updates: [rank][clock] -> gradients.
std::vector<std::vector<Gradients>> RunReplicas(int size, const std::vector<size_t>& sizes, int clocks, unsigned seed,
                                                size_t bucket_bytes, bool rounds) {
  MemoryNetwork network(size);
  Barrier barrier(size);
  std::vector<std::vector<Gradients>> results(size);
  OnAllRanks(size, seed, [&](int rank) {
    test::ExchangeWaiter waiter;
    Gradients gradients = MakeGradients(sizes, rank, 0);
    const auto exchange = Make(&network, rank, size, sizes, bucket_bytes, &waiter, rounds);
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

// Where gradients are rounded, each to 8 bits, the sum is as near as that.
void ExpectSums(const std::vector<std::vector<Gradients>>& results, const std::vector<size_t>& sizes, bool rounds) {
  const int size = static_cast<int>(results.size());
  for (size_t clock = 0; clock < results[0].size(); ++clock) {
    std::vector<Gradients> inputs;
    for (int rank = 0; rank < size; ++rank) inputs.push_back(MakeGradients(sizes, rank, clock));
    for (size_t param = 0; param < sizes.size(); ++param) {
      for (size_t i = 0; i < sizes[param]; ++i) {
        double sum = 0, all = 0;
        for (const Gradients& input : inputs) {
          sum += input[param][i];
          all += std::abs(input[param][i]);
        }
        ASSERT_NEAR(results[0][clock][param][i], sum, rounds ? all / 128 : 1e-5)
            << "clock " << clock << " param " << param << " at " << i;
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

/// Parameter: whether gradients cross in bfloat16 (DirectAllreduce), or as they are (Ring).
class LinkedExchangeTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Sums, LinkedExchangeTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "direct" : "ring"; });

TEST_P(LinkedExchangeTest, SumsOverTwoAndThreeReplicas) {
  for (int size : {2, 3}) {
    const auto results = RunReplicas(size, kMixedSizes, 3, size, 1 << 16, GetParam());
    ExpectSums(results, kMixedSizes, GetParam());
    for (int rank = 1; rank < size; ++rank) {
      for (size_t clock = 0; clock < results[0].size(); ++clock)
        ExpectEqualBits(results[0][clock], results[rank][clock]);
    }
  }
}

TEST_P(LinkedExchangeTest, TwoRunsHaveTheSameBits) {
  const auto first = RunReplicas(3, kMixedSizes, 2, 11, 1 << 16, GetParam());
  const auto second = RunReplicas(3, kMixedSizes, 2, 29, 1 << 16, GetParam());
  for (int rank = 0; rank < 3; ++rank) {
    for (int clock = 0; clock < 2; ++clock) ExpectEqualBits(first[rank][clock], second[rank][clock]);
  }
}

TEST_P(LinkedExchangeTest, TinyParametersAloneAndMoreRanksThanValues) {
  const std::vector<size_t> sizes = {1, 2, 1};
  ExpectSums(RunReplicas(4, sizes, 2, 5, 1 << 20, GetParam()), sizes, GetParam());
  ExpectSums(RunReplicas(4, sizes, 2, 5, 1, GetParam()), sizes, GetParam());
}

TEST_P(LinkedExchangeTest, AnUpdateWithEmptyParametersFinishes) {
  ExpectSums(RunReplicas(2, {0, 0}, 2, 3, 1 << 20, GetParam()), {0, 0}, GetParam());
}

// Large parameters are reported while the clock is open; small ones when their bucket is full, or with the last.
TEST_P(LinkedExchangeTest, ReportsEachParameterAsSoonAsItIsSummed) {
  MemoryNetwork network(2);
  Barrier barrier(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    std::vector<float> large(1000, 1.0f + rank), small(10, 1.0f), other(995, 1.0f), last(1, 1.0f);
    const auto exchange = Make(&network, rank, 2, {1, 995, 1000, 10}, 1000 * sizeof(float), &waiter, GetParam());
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
TEST_P(LinkedExchangeTest, AbortEndsASumThatNeverComes) {
  MemoryNetwork network(2);
  Barrier waiting(2), aborted(2);
  OnAllRanks(2, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    std::vector<float> gradient(1 << 19, 1.0f);
    auto exchange = Make(&network, rank, 2, {gradient.size()}, 1 << 20, &waiter, GetParam());
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

TEST_P(LinkedExchangeTest, AReplicaThatLeavesIsOneFailure) {
  MemoryNetwork network(3);
  Barrier ready(3), failed(3);
  OnAllRanks(3, 1, [&](int rank) {
    test::ExchangeWaiter waiter;
    std::vector<float> gradient(1 << 19, 1.0f);
    auto exchange = Make(&network, rank, 3, {gradient.size()}, 1 << 20, &waiter, GetParam());
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
