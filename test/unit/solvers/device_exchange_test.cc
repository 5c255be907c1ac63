// Exchanges of gradients that are in a device's memory: through the host, and by collectives of the device's own.
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/staged_exchange.h"
#include "test/support/fake_gpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <vector>

namespace hp::test {
namespace {

/// As if another replica had the same gradients: sums are twice what was given.
class Doubling : public Exchange {
 public:
  void Add(uint64_t clock, int param, std::span<float> gradient) override {
    clock_ = clock;
    added_[param] = gradient;
  }
  void FinishAsync(uint64_t clock, std::function<void(const Status&)> done) override {
    EXPECT_EQ(clock, clock_);
    for (auto& [param, gradient] : added_) {
      for (float& value : gradient) value *= 2;
    }
    added_.clear();
    done(status_);
  }
  void Abort(const Status& cause) override { status_ = cause; }
  const Status& status() const { return status_; }

 private:
  uint64_t clock_ = 0;
  std::map<int, std::span<float>> added_;
  Status status_;
};

/// The same on a GPU.
class DoublingOnGpu : public Collectives {
 public:
  explicit DoublingOnGpu(Gpu* gpu) : gpu_(gpu) {}
  Status AllReduce(std::span<float> values) override {
    gpu_->stream(Device::kExchange).host->Enqueue([values] {
      for (float& value : values) value *= 2;
    });
    return OkStatus();
  }
  Status AsyncError() override { return failing ? Unavailable("a replica is gone") : OkStatus(); }
  void Abort() override { ++aborts; }

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

class DeviceExchange : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Exchange> Make() {
    if (!GetParam()) return std::make_unique<StagedExchange>(&gpu_, std::make_unique<Doubling>());
    return std::make_unique<CollectiveExchange>(&gpu_, std::make_unique<DoublingOnGpu>(&gpu_), nullptr);
  }
  FakeGpu gpu_{{.seed = 5, .protect = true}};
};

/// Gradients are taken when they are computed, not when they are given; and what comes after Finish sees the sums.
TEST_P(DeviceExchange, SumsWhatTheQueueComputes) {
  const auto exchange = Make();
  Gradients gradients(&gpu_);
  for (uint64_t clock = 0; clock < 3; ++clock) {
    for (int i : {1, 0}) {
      gradients.Compute(i, static_cast<float>(clock + 10 * i + 1));
      exchange->Add(clock, i, gradients[i]);
    }
    ASSERT_TRUE(exchange->Finish(clock).ok());
    for (int i : {0, 1}) {
      EXPECT_EQ(gradients.Seen(i),
                std::vector<float>(gradients[i].size(), 2.0f * static_cast<float>(clock + 10 * i + 1)));
    }
  }
}

TEST_P(DeviceExchange, EndsByAbort) {
  const auto exchange = Make();
  exchange->Abort(Unavailable("node gone"));
  EXPECT_EQ(exchange->Finish(0).code(), StatusCode::kUnavailable);
}
INSTANTIATE_TEST_SUITE_P(Both, DeviceExchange, testing::Bool(),
                         [](const auto& info) { return info.param ? "Collective" : "Staged"; });

/// The other replicas must not wait for a gradient that never comes.
TEST(StagedExchange, EndsTheExchangeWhenTheDeviceFails) {
  FakeGpu gpu;
  auto inner = std::make_unique<Doubling>();
  const Doubling* const doubling = inner.get();
  StagedExchange exchange(&gpu, std::move(inner));
  Gradients gradients(&gpu);
  gpu.Fail(InternalError("fell off the bus"));
  exchange.Add(0, 0, gradients[0]);
  EXPECT_EQ(exchange.Finish(0).message(), "fell off the bus");
  EXPECT_EQ(doubling->status().message(), "fell off the bus");
}

TEST(CollectiveExchange, SaysOnceThatAReplicaIsGone) {
  FakeGpu gpu;
  auto collectives = std::make_unique<DoublingOnGpu>(&gpu);
  DoublingOnGpu* const raw = collectives.get();
  std::promise<Status> failure;
  CollectiveExchange exchange(&gpu, std::move(collectives), [&](const Status& status) { failure.set_value(status); });
  Gradients gradients(&gpu);
  exchange.Add(0, 0, gradients[0]);
  raw->failing = true;
  EXPECT_EQ(failure.get_future().get().message(), "a replica is gone");
  EXPECT_EQ(raw->aborts, 1);
  exchange.Add(0, 1, gradients[1]);
  EXPECT_EQ(exchange.Finish(0).code(), StatusCode::kUnavailable);
  exchange.Abort(Cancelled("the node ends"));
  EXPECT_EQ(raw->aborts, 1);
}

}  // namespace
}  // namespace hp::test
