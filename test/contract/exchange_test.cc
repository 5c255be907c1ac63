// Exchanges over every transport: sums over replicas, and what a broken connection does to them.
#include "node/exchange_links.h"
#include "solvers/exchange/direct_allreduce.h"
#include "solvers/exchange/linked_exchange.h"
#include "solvers/exchange/ring.h"
#include "test/contract/fixtures.h"
#include "test/support/exchange_waiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr int kReplicas = 3;
constexpr uint64_t kClocks = 3;
// In the order of Add; buckets of 16 KiB, chunks of 4 KiB.
const std::vector<size_t> kCounts = {50'000, 7, 4096, 0, 300, 9000};

class ExchangeTest : public TransportTest {
 protected:
  struct Replica {
    test::ExchangeWaiter waiter;
    std::vector<std::vector<float>> gradients;
    std::unique_ptr<ExchangeLinks> links;
    std::unique_ptr<LinkedExchange> exchange;
  };

  void StartReplicas() {
    ASSERT_NO_FATAL_FAILURE(StartNodes(kReplicas));
    for (Rank rank = 0; rank < kReplicas; ++rank) ASSERT_NO_FATAL_FAILURE(MakeReplica(rank));
    // A node takes others' grants when it is assembled (Gate); here all are, before the first one is given.
    for (Rank rank = 0; rank < kReplicas; ++rank) {
      node(rank).ReactBy([links = replicas_[rank]->links.get()](const Event& event) {
        if (event.kind == Event::kGranted) links->OnGranted(event.peer, event.tag, event.grant);
        if (event.kind == Event::kGrantEnded) links->OnGrantEnded(event.peer, event.tag, event.status);
        if (event.kind == Event::kWriteEnded) links->OnWriteEnded(event.peer, event.tag, event.status);
      });
    }
  }
  void MakeReplica(Rank rank) {
    auto replica = std::make_unique<Replica>();
    BlockPlan::Options options;
    options.rank = rank;
    options.size = kReplicas;
    options.counts = kCounts;
    options.bucket_bytes = 16 << 10;
    options.min_chunk_bytes = options.max_chunk_bytes = 4 << 10;
    ExchangeLinks::Options links{node(rank).operator->(), {0, 1, 2}, 0, {}};
    for (Rank peer = 0; peer < kReplicas; ++peer) {
      if (rounds_ && peer != rank) {
        links.places.push_back({.granter = peer, .bytes = DirectPlan(options).BytesFrom(peer)});
      } else if (!rounds_ && peer == RingPlan(options).right()) {
        links.places.push_back({.granter = peer, .bytes = RingPlan(options).SentBytes()});
      }
    }
    replica->links = std::make_unique<ExchangeLinks>(std::move(links));
    const auto sums = [&](Allreduce::DoneSink on_done) {
      return rounds_ ? DirectAllreduce::Create(DirectPlan(options), replica->links.get(), std::move(on_done))
                     : Ring::Create(RingPlan(options), replica->links.get(), std::move(on_done));
    };
    std::vector<int> params(kCounts.size());
    std::iota(params.begin(), params.end(), 0);
    auto exchange = LinkedExchange::Create(sums, params, replica->links.get(), replica->waiter.callbacks());
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    replica->exchange = *std::move(exchange);
    for (size_t count : kCounts) replica->gradients.emplace_back(count);
    replicas_.push_back(std::move(replica));
  }
  void TearDown() override {
    TransportTest::TearDown();  // peers write into the gradients until then
    replicas_.clear();
  }
  void ExpectSums(float tolerance) {
    for (uint64_t clock = 0; clock < kClocks; ++clock) {
      for (Rank rank = 0; rank < kReplicas; ++rank) Add((rank + static_cast<Rank>(clock)) % kReplicas, clock);
      for (Rank rank = 0; rank < kReplicas; ++rank) {
        const Status status = replicas_[rank]->waiter.Wait(clock, static_cast<int>(kCounts.size()));
        ASSERT_TRUE(status.ok()) << status;
      }
      for (size_t param = 0; param < kCounts.size(); ++param) {
        for (size_t i = 0; i < kCounts[param]; ++i) {
          float sum = 0;
          for (Rank rank = 0; rank < kReplicas; ++rank) sum += InputOf(rank, clock, param, i);
          const float found = replicas_[0]->gradients[param][i];
          ASSERT_LE(std::abs(found - sum), tolerance * sum) << param << " at " << i;
          for (const auto& replica : replicas_) ASSERT_EQ(replica->gradients[param][i], found) << param << " at " << i;
        }
      }
    }
  }
  static float InputOf(Rank rank, uint64_t clock, size_t param, size_t i) {
    return static_cast<float>((i * 31 + param * 7 + clock * 3 + rank * 1009) % 977) / 64;
  }
  void Add(Rank rank, uint64_t clock) {
    Replica& replica = *replicas_[rank];
    for (size_t param = 0; param < kCounts.size(); ++param) {
      std::vector<float>& gradient = replica.gradients[param];
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = InputOf(rank, clock, param, i);
      replica.exchange->Add(clock, static_cast<int>(param), gradient);
    }
    replica.exchange->Flush(clock);
  }

  bool rounds_ = false;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

// Sixteenths: exact in any order.
TEST_P(ExchangeTest, SumsOverTheReplicas) {
  ASSERT_NO_FATAL_FAILURE(StartReplicas());
  ExpectSums(0);
}

// Each number is rounded to 8 bits, and so is the sum.
TEST_P(ExchangeTest, SumsInBfloat16) {
  rounds_ = true;
  ASSERT_NO_FATAL_FAILURE(StartReplicas());
  ExpectSums(2.0f / 256);
}

// Replica 1 waits for what replica 0 can't have before replica 2 adds, which it never does.
TEST_P(ExchangeTest, ABrokenConnectionEndsTheSumsThatWaitForIt) {
  ASSERT_NO_FATAL_FAILURE(StartReplicas());
  Add(0, 0);
  Add(1, 0);
  node(0)->Break(1, Unavailable("cut"));
  test::ExchangeWaiter& waiter = replicas_[1]->waiter;
  const Status status = waiter.Wait(0, static_cast<int>(kCounts.size()));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), testing::HasSubstr("exchange: "));
  replicas_[1]->exchange->Abort(Cancelled("the end"));
  EXPECT_EQ(waiter.reports(), 1) << "the failure alone";
}

INSTANTIATE_TEST_SUITE_P(Transports, ExchangeTest, testing::ValuesIn(AllTransports()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp
