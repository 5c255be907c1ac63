#include "solvers/exchange/exchange.h"

#include "base/mutex.h"

namespace hp {
namespace {

// The other end of a `done` that somebody waits for.
class Waiter {
 public:
  void Set(const Status& status) {
    MutexLock lock(&mutex_);
    status_ = status;
    set_ = true;
    changed_.SignalAll();
  }
  Status Wait() {
    MutexLock lock(&mutex_);
    while (!set_) changed_.Wait(&mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ HP_GUARDED_BY(mutex_) = false;
  Status status_ HP_GUARDED_BY(mutex_);
};

}  // namespace

Status Exchange::Finish(uint64_t clock) {
  Waiter waiter;
  FinishAsync(clock, [&waiter](const Status& status) { waiter.Set(status); });
  return waiter.Wait();
}

}  // namespace hp
