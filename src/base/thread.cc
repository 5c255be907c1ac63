#include "base/thread.h"

#include "base/mutex.h"

#include <pthread.h>

#include <exception>
#include <utility>
#include <vector>

namespace hp {

Thread::Thread(const std::string& name, std::function<void()> body)
    : thread_([name = name.substr(0, 15), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.c_str());
        body();
      }) {}

namespace {

/// Threads that wait until they may end.
class Waiting {
 public:
  ~Waiting() {
    {
      MutexLock lock(&mutex_);
      end_ = true;
      changed_.SignalAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  /// @return whether the system started one more.
  bool Start() {
    try {
      threads_.emplace_back([this] { Wait(); });
    } catch (const std::exception&) {  // std::system_error, std::bad_alloc
      return false;
    }
    return true;
  }
  int count() const { return static_cast<int>(threads_.size()); }

 private:
  void Wait() {
    MutexLock lock(&mutex_);
    while (!end_) changed_.Wait(&mutex_);
  }

  Mutex mutex_;
  CondVar changed_;
  bool end_ HP_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Status TryThreads(int count) {
  Waiting waiting;
  while (waiting.count() < count) {
    if (waiting.Start()) continue;
    return ResourceExhausted(
        "the system starts only %d of %d threads; look at ulimit -u, ulimit -v, and pids.max of the control group",
        waiting.count(), count);
  }
  return OkStatus();
}

}  // namespace hp
