// NCCL on all GPUs of this host, a replica on each: on one GPU alone it shows that the calls are right, on several that
// they add up.
#include "backend/cuda/gpu.h"
#include "base/thread.h"
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/nccl_collectives.h"
#include "test/support/exchange_waiter.h"
#include "test/support/shared_rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

constexpr size_t kCount = 5000;

/// One replica: a GPU, a gradient on it, and its exchange.
class Replica {
 public:
  void Open(int rank, int size, Rendezvous* rendezvous) {
    auto gpu = OpenGpu(rank);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *std::move(gpu);
    auto buffer = gpu_->AllocateShared(kCount * sizeof(float));
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
    NcclOptions options;
    options.rank = options.gpu = rank;
    options.size = size;
    options.key_prefix = "test";
    options.stream = gpu_->stream(Device::kExchange).cuda;
    auto nccl = ConnectNccl(options, rendezvous);
    ASSERT_TRUE(nccl.ok()) << nccl.status();
    exchange_ = std::make_unique<CollectiveExchange>(gpu_.get(), *std::move(nccl), waiter_.callbacks());
  }

  Exchange* exchange() { return exchange_.get(); }
  ExchangeWaiter* waiter() { return &waiter_; }
  std::span<float> gradient() { return {buffer_.floats(), kCount}; }
  /// In the compute queue.
  void Compute(const std::vector<float>& values) {
    gpu_->Upload(Device::kCompute, buffer_.data(), values.data(), values.size() * sizeof(float));
  }
  /// As a node does in its first iterations; to free memory CUDA waits for GPUs.
  void AllocateForAWhile() { EXPECT_TRUE(gpu_->AllocateShared(4 << 20).ok()); }
  /// What work in the compute queue sees now.
  std::vector<float> Seen() {
    std::vector<float> seen(kCount);
    gpu_->Download(Device::kCompute, seen.data(), buffer_.data(), kCount * sizeof(float));
    EXPECT_TRUE(gpu_->Wait(gpu_->Record(Device::kCompute)).ok());
    return seen;
  }
  Status Synchronize() { return gpu_->Synchronize(); }

 private:
  std::unique_ptr<Gpu> gpu_;  // before all that has memory of it
  Buffer buffer_;
  ExchangeWaiter waiter_;
  std::unique_ptr<Exchange> exchange_;
};

std::vector<std::unique_ptr<Replica>> Replicas() {
  PrepareNccl();
  const auto gpus = ListGpus();
  const int size = gpus.ok() ? static_cast<int>(gpus->size()) : 0;
  SharedRendezvous rendezvous;
  std::vector<std::unique_ptr<Replica>> replicas(size);
  {
    std::vector<Thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      replicas[rank] = std::make_unique<Replica>();
      threads.emplace_back("replica", [&, rank] { replicas[rank]->Open(rank, size, &rendezvous); });
    }
  }
  return replicas;
}

std::vector<float> Values(int rank, int clock) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>((i % 13 + clock) * (rank + 1));
  return values;
}

TEST(Nccl, AddsUpWhatTheQueuesCompute) {
  const auto replicas = Replicas();
  const int size = static_cast<int>(replicas.size());
  for (int clock = 0; clock < 20; ++clock) {
    std::vector<std::vector<float>> values;
    for (int rank = 0; rank < size; ++rank) values.push_back(Values(rank, clock));
    std::vector<Thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back("replica", [&, rank, clock] {
        Replica& replica = *replicas[rank];
        replica.Compute(values[rank]);
        replica.AllocateForAWhile();
        replica.exchange()->Add(clock, 0, replica.gradient());
        replica.exchange()->Flush(clock);
        replica.AllocateForAWhile();
        const Status summed = replica.waiter()->Wait(clock, 1);
        ASSERT_TRUE(summed.ok()) << summed;
        std::vector<float> sum = Values(0, clock);
        for (float& value : sum) value *= static_cast<float>(size * (size + 1) / 2);
        EXPECT_EQ(replica.Seen(), sum) << "rank " << rank << ", clock " << clock;
      });
    }
  }
}

/// A replica whose sum others never ask for ends when it is told that they are gone.
TEST(Nccl, AbortEndsWhatOthersNeverJoin) {
  const auto replicas = Replicas();
  Replica& first = *replicas[0];
  first.Compute(Values(0, 0));
  first.exchange()->Add(0, 0, first.gradient());
  first.exchange()->Flush(0);
  for (const auto& replica : replicas) replica->exchange()->Abort(Unavailable("node gone"));
  (void)first.Synchronize();  // whatever it says, it returns
  first.exchange()->Add(1, 0, first.gradient());
  first.exchange()->Flush(1);
}

}  // namespace
}  // namespace hp::test
