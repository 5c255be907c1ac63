#include "solvers/exchange/gloo_exchange.h"

#include "base/mutex.h"
#include "base/thread.h"
#include "solvers/exchange/gloo_ring.h"

#include "glog/logging.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace hp {
namespace {

using Done = std::function<void(const Status&)>;

// Small parameters that wait to be summed together.
class Bucket {
 public:
  void Add(std::span<float> values) {
    parts_.push_back(values);
    size_ += values.size();
  }
  size_t bytes() const { return size_ * sizeof(float); }

  /// Sums all parts by one collective and empties the bucket.
  Status Reduce(GlooRing* ring) {
    if (size_ == 0) return OkStatus();
    staging_.resize(std::max(staging_.size(), size_));
    float* to = staging_.data();
    for (std::span<float> part : parts_) to = std::copy(part.begin(), part.end(), to);
    const Status status = ring->AllReduce({staging_.data(), size_});
    const float* from = staging_.data();
    for (std::span<float> part : parts_) {
      std::copy(from, from + part.size(), part.begin());
      from += part.size();
    }
    parts_.clear();
    size_ = 0;
    return status;
  }

 private:
  std::vector<std::span<float>> parts_;
  size_t size_ = 0;
  std::vector<float> staging_;
};

class GlooExchange : public Exchange {
 public:
  GlooExchange(std::unique_ptr<GlooRing> ring, const GlooOptions& options)
      : bucket_bytes_(options.bucket_bytes), on_failure_(options.on_failure), ring_(std::move(ring)) {
    thread_ = Thread("exchange", [this] { Run(); });
  }
  ~GlooExchange() override {
    Abort(Cancelled("exchange: ended"));
    thread_.Join();
  }

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    CHECK(!adding_ || clock == clock_) << "param " << param << " of clock " << clock << " before clock " << clock_
                                       << " is finished";
    adding_ = true;
    clock_ = clock;
    tasks_.push_back({gradient, nullptr});
    changed_.Signal();
  }

  void FinishAsync(uint64_t clock, Done done) override {
    if (Status status = Enqueue(clock, &done); !status.ok()) done(status);
  }

  void Abort(const Status& cause) override {
    std::deque<Task> tasks;
    {
      MutexLock lock(&mutex_);
      if (!status_.ok()) return;
      status_ = cause;
      tasks = std::exchange(tasks_, {});
      changed_.Signal();
    }
    ring_->Close();
    for (Task& task : tasks) {
      if (task.done) task.done(cause);
    }
  }

 private:
  // A parameter, or, with `done`, the end of a clock.
  struct Task {
    std::span<float> values;
    Done done;
  };

  // @return not ok: the exchange has failed, and `done` was left alone.
  Status Enqueue(uint64_t clock, Done* done) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    CHECK(!adding_ || clock == clock_) << "finish of clock " << clock << " while clock " << clock_ << " is open";
    adding_ = false;
    tasks_.push_back({{}, std::move(*done)});
    changed_.Signal();
    return OkStatus();
  }

  void Run() {
    Task task;
    while (Front(&task)) {
      const Status status = Process(task);
      if (!status.ok()) return Fail(status);
      if (Done done = PopFront()) done(OkStatus());
    }
  }

  // Waits for a task and looks at it; it stays in the queue, so that an Abort finds its `done`.
  bool Front(Task* task) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (tasks_.empty() && status_.ok()) changed_.Wait(&mutex_);
    if (!status_.ok()) return false;
    *task = tasks_.front();
    return true;
  }

  Done PopFront() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (tasks_.empty()) return nullptr;
    Done done = std::move(tasks_.front().done);
    tasks_.pop_front();
    return done;
  }

  // Which parameters share a collective depends on the sizes and their order alone.
  Status Process(const Task& task) {
    if (task.done) return bucket_.Reduce(ring_.get());
    if (task.values.size_bytes() >= bucket_bytes_) return ring_->AllReduce(task.values);
    bucket_.Add(task.values);
    return bucket_.bytes() >= bucket_bytes_ ? bucket_.Reduce(ring_.get()) : OkStatus();
  }

  // A failure that Abort caused itself is no news.
  void Fail(const Status& status) {
    {
      MutexLock lock(&mutex_);
      if (!status_.ok()) return;
    }
    Abort(status);
    if (on_failure_) on_failure_(status);
  }

  const size_t bucket_bytes_;
  const std::function<void(const Status&)> on_failure_;
  const std::unique_ptr<GlooRing> ring_;
  Bucket bucket_;  // exchange thread

  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ HP_GUARDED_BY(mutex_);
  Status status_ HP_GUARDED_BY(mutex_);  // of the exchange: the first failure ends it
  uint64_t clock_ HP_GUARDED_BY(mutex_) = 0;
  bool adding_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<Exchange>> ConnectGlooExchange(const GlooOptions& options, Rendezvous* rendezvous) {
  HP_ASSIGN_OR_RETURN(auto ring, GlooRing::Connect(options, rendezvous));
  return std::unique_ptr<Exchange>(std::make_unique<GlooExchange>(std::move(ring), options));
}

}  // namespace hp
