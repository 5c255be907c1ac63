#pragma once

#include "base/mutex.h"
#include "solvers/exchange/rendezvous.h"

#include <map>
#include <string>

namespace hp::test {

/// A rendezvous among the threads of a test.
class SharedRendezvous : public Rendezvous {
 public:
  Status Set(const std::string& key, const std::string& value) override {
    MutexLock lock(&mutex_);
    values_[key] = value;
    changed_.SignalAll();
    return OkStatus();
  }
  StatusOr<std::string> Get(const std::string& key) override {
    MutexLock lock(&mutex_);
    while (values_.count(key) == 0 && failure_.ok()) changed_.Wait(&mutex_);
    if (!failure_.ok()) return failure_;
    return values_[key];
  }
  Status Check() override {
    MutexLock lock(&mutex_);
    return failure_;
  }
  /// Get returns `status` from now on.
  void Fail(const Status& status) {
    MutexLock lock(&mutex_);
    failure_ = status;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ HP_GUARDED_BY(mutex_);
  Status failure_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp::test
