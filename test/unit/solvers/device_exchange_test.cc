// Exchanges of gradients that are in a device's memory: through the host, and by collectives of the device's own.
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/staged_exchange.h"
#include "test/support/exchange_waiter.h"
#include "test/support/fake_gpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

/// As if another replica had the same gradients: sums are twice what was given, and there when the clock is flushed.
class Doubling : public Exchange {
 public:
  explicit Doubling(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  void Add(uint64_t clock, int param, std::span<float> gradient) override {
    clock_ = clock;
    added_[param] = gradient;
  }
  void Flush(uint64_t clock) override {
    EXPECT_EQ(clock, clock_);
    for (auto& [param, gradient] : added_) {
      for (float& value : gradient) value *= 2;
      if (status_.ok()) callbacks_.on_exchanged(clock, param);
    }
    added_.clear();
  }
  void Abort(const Status& cause) override { status_ = cause; }
  const Status& status() const { return status_; }
  /// Another replica is gone.
  void Fail(const Status& status) { callbacks_.on_failure(status); }

 private:
  const Callbacks callbacks_;
  uint64_t clock_ = 0;
  std::map<int, std::span<float>> added_;
  Status status_;
};

/// The same on a GPU.
class DoublingOnGpu : public Collectives {
 public:
  explicit DoublingOnGpu(Gpu* gpu) : gpu_(gpu) {}
  Status AllReduce(CollectiveSum sum) override {
    calls.push_back(sum.values.size());
    asked.push_back(std::move(sum));
    if (!late) Enqueue();
    return OkStatus();
  }
  /// The first of `asked`.
  void Enqueue() {
    asked.front().before();
    for (const std::span<float> values : asked.front().values) {
      gpu_->stream(Device::kExchange).host->Enqueue([values] {
        for (float& value : values) value *= 2;
      });
    }
    asked.front().after();
    asked.pop_front();
  }
  Status AsyncError() override { return failing ? Unavailable("a replica is gone") : OkStatus(); }
  void Abort() override { ++aborts; }

  std::vector<size_t> calls;  ///< sums of each
  bool late = false;          ///< sums are enqueued by Enqueue alone, as if others had not asked yet
  std::deque<CollectiveSum> asked;
  std::atomic<bool> failing{false};
  std::atomic<int> aborts{0};

 private:
  Gpu* const gpu_;
};

/// Two parameters' gradients on a GPU, written by work in its compute queue.
class Gradients {
 public:
  explicit Gradients(Gpu* gpu) : gpu_(gpu) {
    for (size_t count : {3, 500}) {
      auto buffer = gpu->Allocate(count * sizeof(float));
      EXPECT_TRUE(buffer.ok());
      buffers_.push_back(*std::move(buffer));
    }
  }
  std::span<float> operator[](int i) const { return {buffers_[i].floats(), buffers_[i].bytes() / sizeof(float)}; }
  void Compute(int i, float value) {
    gpu_->stream(Device::kCompute).host->Enqueue([gradient = (*this)[i], value] {
      for (float& element : gradient) element = value;
    });
  }
  /// What work in the compute queue sees now.
  std::vector<float> Seen(int i) {
    std::vector<float> seen((*this)[i].size());
    gpu_->Download(Device::kCompute, seen.data(), (*this)[i].data(), (*this)[i].size_bytes());
    EXPECT_TRUE(gpu_->Wait(gpu_->Record(Device::kCompute)).ok());
    return seen;
  }

 private:
  Gpu* const gpu_;
  std::vector<Buffer> buffers_;
};

StatusOr<std::unique_ptr<Exchange>> MakeDoubling(Exchange::Callbacks callbacks) {
  return std::unique_ptr<Exchange>(std::make_unique<Doubling>(std::move(callbacks)));
}

class DeviceExchange : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Exchange> Make() { return Make(waiter_.callbacks()); }
  std::unique_ptr<Exchange> Make(const Exchange::Callbacks& callbacks) {
    if (!GetParam()) return *StagedExchange::Create(&gpu_, MakeDoubling, callbacks);
    return std::make_unique<CollectiveExchange>(&gpu_, std::make_unique<DoublingOnGpu>(&gpu_), callbacks);
  }
  FakeGpu gpu_{{.seed = 5, .protect = true}};
  ExchangeWaiter waiter_;
};

/// Gradients are taken when they are computed, not when they are given; and what comes after the report sees the sums.
TEST_P(DeviceExchange, SumsWhatTheQueueComputes) {
  const auto exchange = Make();
  Gradients gradients(&gpu_);
  for (uint64_t clock = 0; clock < 3; ++clock) {
    for (int i : {1, 0}) {
      gradients.Compute(i, static_cast<float>(clock + 10 * i + 1));
      exchange->Add(clock, i, gradients[i]);
    }
    exchange->Flush(clock);
    ASSERT_TRUE(waiter_.Wait(clock, 2).ok());
    for (int i : {0, 1}) {
      EXPECT_EQ(gradients.Seen(i),
                std::vector<float>(gradients[i].size(), 2.0f * static_cast<float>(clock + 10 * i + 1)));
    }
  }
}

TEST_P(DeviceExchange, ReportsNothingAfterAbort) {
  Gradients gradients(&gpu_);
  auto exchange = Make();
  exchange->Abort(Unavailable("node gone"));
  exchange->Add(0, 0, gradients[0]);
  exchange->Flush(0);
  exchange.reset();
  EXPECT_EQ(waiter_.reports(), 0);
}

TEST_P(DeviceExchange, WhoTakesASumMayFindNoMemory) {
  Gradients gradients(&gpu_);
  Exchange::Callbacks callbacks = waiter_.callbacks();
  callbacks.on_exchanged = [](uint64_t, int) { throw std::bad_alloc(); };
  const auto exchange = Make(callbacks);
  gradients.Compute(0, 1);
  exchange->Add(0, 0, gradients[0]);
  exchange->Flush(0);
  EXPECT_EQ(waiter_.Wait(0, 1).message(), "out of memory: summing gradients");
}
INSTANTIATE_TEST_SUITE_P(Both, DeviceExchange, testing::Bool(),
                         [](const auto& info) { return info.param ? "Collective" : "Staged"; });

/// The other replicas must not wait for a gradient that never comes.
TEST(StagedExchange, EndsTheExchangeWhenTheDeviceFails) {
  FakeGpu gpu;
  Doubling* doubling = nullptr;
  const auto make = [&doubling](Exchange::Callbacks callbacks) -> StatusOr<std::unique_ptr<Exchange>> {
    auto made = std::make_unique<Doubling>(std::move(callbacks));
    doubling = made.get();
    return std::unique_ptr<Exchange>(std::move(made));
  };
  ExchangeWaiter waiter;
  const auto exchange = *StagedExchange::Create(&gpu, make, waiter.callbacks());
  Gradients gradients(&gpu);
  gpu.Fail(InternalError("fell off the bus"));
  exchange->Add(0, 0, gradients[0]);
  EXPECT_EQ(waiter.Wait(0, 1).message(), "fell off the bus");
  EXPECT_EQ(doubling->status().message(), "fell off the bus");
  doubling->Fail(Unavailable("and the others see that"));
  EXPECT_EQ(waiter.reports(), 1);
}

TEST(CollectiveExchange, SaysOnceThatAReplicaIsGone) {
  FakeGpu gpu;
  auto collectives = std::make_unique<DoublingOnGpu>(&gpu);
  DoublingOnGpu* const raw = collectives.get();
  ExchangeWaiter waiter;
  Gradients gradients(&gpu);
  CollectiveExchange exchange(&gpu, std::move(collectives), waiter.callbacks());
  exchange.Add(0, 0, gradients[0]);
  exchange.Flush(0);
  ASSERT_TRUE(waiter.Wait(0, 1).ok());
  raw->failing = true;
  EXPECT_EQ(waiter.WaitFor(0, {1}).message(), "a replica is gone");
  EXPECT_EQ(raw->aborts, 1);
  exchange.Add(0, 1, gradients[1]);
  exchange.Abort(Cancelled("the node ends"));
  EXPECT_EQ(raw->aborts, 1);
  EXPECT_EQ(waiter.reports(), 2);
}

/// Nothing is reported before, and a sum still waits for its gradient.
TEST(CollectiveExchange, SumsMayBeEnqueuedLate) {
  FakeGpu gpu;
  auto collectives = std::make_unique<DoublingOnGpu>(&gpu);
  DoublingOnGpu* const raw = collectives.get();
  raw->late = true;
  ExchangeWaiter waiter;
  Gradients gradients(&gpu);
  CollectiveExchange exchange(&gpu, std::move(collectives), waiter.callbacks());
  for (const int i : {0, 1}) {
    gradients.Compute(i, static_cast<float>(i + 1));
    exchange.Add(0, i, gradients[i]);
    exchange.Flush(0);
  }
  EXPECT_EQ(waiter.reports(), 0);
  raw->Enqueue();
  EXPECT_TRUE(waiter.WaitFor(0, {0}).ok());
  EXPECT_EQ(gradients.Seen(0), std::vector<float>(3, 2.0f));
  raw->Enqueue();
  EXPECT_TRUE(waiter.Wait(0, 2).ok());
  EXPECT_EQ(gradients.Seen(1), std::vector<float>(500, 4.0f));
}

/// Gradients wait for each other until there are some megabytes of them, or the last one is there.
TEST(CollectiveExchange, SumsSmallGradientsTogether) {
  FakeGpu gpu;
  auto collectives = std::make_unique<DoublingOnGpu>(&gpu);
  DoublingOnGpu* const raw = collectives.get();
  ExchangeWaiter waiter;
  auto buffer = gpu.Allocate(CollectiveExchange::kBucketBytes);
  ASSERT_TRUE(buffer.ok());
  const std::span<float> all(buffer->floats(), CollectiveExchange::kBucketBytes / sizeof(float));
  CollectiveExchange exchange(&gpu, std::move(collectives), waiter.callbacks());
  exchange.Add(0, 0, all.first(10));
  exchange.Add(0, 1, all.last(all.size() - 10));
  EXPECT_EQ(raw->calls, std::vector<size_t>{2});
  exchange.Add(0, 2, all.first(10));
  EXPECT_EQ(raw->calls.size(), 1u);
  exchange.Flush(0);
  exchange.Flush(0);
  EXPECT_EQ(raw->calls, (std::vector<size_t>{2, 1}));
  EXPECT_TRUE(waiter.Wait(0, 3).ok());
}

}  // namespace
}  // namespace hp::test
