// Sums of gradients by Gloo's ring, one collective after the other on a thread of its own. A collective costs a round
// trip for each replica whatever its size, so small parameters wait in a bucket until they make `bucket_bytes`, or
// until the clock's last one was added (Flush). What shares a collective follows from the sizes and their order alone,
// never from when they arrive: the order of additions within a collective depends on its length, and all replicas must
// do the same.
#include "solvers/exchange/gloo_exchange.h"

#include "base/mutex.h"
#include "base/thread.h"
#include "solvers/exchange/gloo_ring.h"

#include "glog/logging.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace hp {
namespace {

// A parameter that was added, or, without values, the end of a clock.
struct Step {
  uint64_t clock = 0;
  int param = 0;
  std::optional<std::span<float>> values;
};

// Small parameters that wait to be summed together.
class Bucket {
 public:
  void Add(const Step& step) {
    size_ += step.values->size();
    steps_.push_back(step);
  }
  size_t bytes() const { return size_ * sizeof(float); }

  /// Sums all of them by one collective and empties the bucket. @return what is summed.
  StatusOr<std::vector<Step>> Reduce(GlooRing* ring) {
    staging_.resize(std::max(staging_.size(), size_));
    float* to = staging_.data();
    for (const Step& step : steps_) to = std::copy(step.values->begin(), step.values->end(), to);
    if (size_ > 0) HP_RETURN_IF_ERROR(ring->AllReduce({staging_.data(), size_}));
    const float* from = staging_.data();
    for (const Step& step : steps_) {
      std::copy(from, from + step.values->size(), step.values->begin());
      from += step.values->size();
    }
    size_ = 0;
    return std::exchange(steps_, {});
  }

 private:
  std::vector<Step> steps_;
  size_t size_ = 0;
  std::vector<float> staging_;
};

class GlooExchange : public Exchange {
 public:
  GlooExchange(std::unique_ptr<GlooRing> ring, size_t bucket_bytes, Callbacks callbacks)
      : bucket_bytes_(bucket_bytes), callbacks_(std::move(callbacks)), ring_(std::move(ring)) {
    thread_ = Thread("exchange", [this] { Run(); });
  }
  ~GlooExchange() override {
    Abort(Cancelled("exchange: shut down"));
    thread_.Join();
  }

  void Add(uint64_t clock, int param, std::span<float> gradient) override { Push({clock, param, gradient}); }
  void Flush(uint64_t clock) override { Push({clock, 0, std::nullopt}); }
  void Abort(const Status& cause) override { End(cause); }

 private:
  void Push(const Step& step) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    CHECK(!adding_ || step.clock == clock_) << "clock " << step.clock << " before clock " << clock_ << " was flushed";
    adding_ = step.values.has_value();
    clock_ = step.clock;
    steps_.push_back(step);
    changed_.Signal();
  }

  void Run() {
    while (const std::optional<Step> step = Pop()) {
      const Status status = Process(*step);
      if (status.ok()) continue;
      if (End(status)) callbacks_.on_failure(status);
      return;
    }
  }

  /// @return nothing: the exchange has ended.
  std::optional<Step> Pop() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (steps_.empty() && status_.ok()) changed_.Wait(&mutex_);
    if (!status_.ok()) return std::nullopt;
    const Step step = steps_.front();
    steps_.pop_front();
    return step;
  }

  Status Process(const Step& step) {
    if (!step.values) return ReduceBucket();
    if (step.values->size_bytes() >= bucket_bytes_) {
      HP_RETURN_IF_ERROR(ring_->AllReduce(*step.values));
      callbacks_.on_exchanged(step.clock, step.param);
      return OkStatus();
    }
    bucket_.Add(step);
    return bucket_.bytes() >= bucket_bytes_ ? ReduceBucket() : OkStatus();
  }

  Status ReduceBucket() {
    HP_ASSIGN_OR_RETURN(const std::vector<Step> summed, bucket_.Reduce(ring_.get()));
    for (const Step& step : summed) callbacks_.on_exchanged(step.clock, step.param);
    return OkStatus();
  }

  /// The first cause ends the exchange; closing the ring ends the collective that is under way. @return whether it is
  /// the first: a failure that Abort caused itself is no news.
  bool End(const Status& cause) HP_EXCLUDES(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (!status_.ok()) return false;
      status_ = cause;
      steps_.clear();
      changed_.Signal();
    }
    ring_->Close();
    return true;
  }

  const size_t bucket_bytes_;
  const Callbacks callbacks_;
  const std::unique_ptr<GlooRing> ring_;
  Bucket bucket_;  // exchange thread

  Mutex mutex_;
  CondVar changed_;
  std::deque<Step> steps_ HP_GUARDED_BY(mutex_);
  Status status_ HP_GUARDED_BY(mutex_);  // why it has ended
  uint64_t clock_ HP_GUARDED_BY(mutex_) = 0;
  bool adding_ HP_GUARDED_BY(mutex_) = false;  // parameters of clock_, of which there may be more
  Thread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<Exchange>> ConnectGlooExchange(const GlooOptions& options, Rendezvous* rendezvous,
                                                        Exchange::Callbacks callbacks) {
  HP_ASSIGN_OR_RETURN(auto ring, GlooRing::Connect(options, rendezvous));
  return std::unique_ptr<Exchange>(
      std::make_unique<GlooExchange>(std::move(ring), options.bucket_bytes, std::move(callbacks)));
}

}  // namespace hp
