#pragma once

#include "base/mutex.h"
#include "solvers/exchange/exchange.h"

#include <cstdint>
#include <map>
#include <set>

namespace hp::test {

/// Hears what an exchange reports, and lets a test wait for it. Any threads; must outlive the exchange.
class ExchangeWaiter {
 public:
  Exchange::Callbacks callbacks() {
    return {.on_exchanged = [this](uint64_t clock, int param) { OnExchanged(clock, param); },
            .on_failure = [this](const Status& status) { OnFailure(status); }};
  }

  /// Waits until exactly these parameters of `clock` are sums, or the exchange failed. @return which.
  Status WaitFor(uint64_t clock, const std::set<int>& params) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (failure_.ok() && exchanged_[clock] != params) {
      if (exchanged_[clock].size() > params.size()) return InternalError("others are sums as well");
      changed_.Wait(&mutex_);
    }
    return failure_;
  }
  /// The same for parameters 0, 1, ... `count` - 1.
  Status Wait(uint64_t clock, int count) {
    std::set<int> params;
    for (int param = 0; param < count; ++param) params.insert(param);
    return WaitFor(clock, params);
  }
  /// How often a callback was called.
  int reports() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return reports_;
  }

 private:
  void OnExchanged(uint64_t clock, int param) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    ++reports_;
    if (!exchanged_[clock].insert(param).second) failure_ = InternalError("reported twice");
    changed_.SignalAll();
  }
  void OnFailure(const Status& status) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    ++reports_;
    failure_ = status;
    changed_.SignalAll();
  }

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, std::set<int>> exchanged_ HP_GUARDED_BY(mutex_);
  Status failure_ HP_GUARDED_BY(mutex_);
  int reports_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace hp::test
