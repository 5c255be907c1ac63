#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Clang's thread-safety annotations (clang++ -Wthread-safety checks them; g++ sees nothing).
#if defined(__clang__)
#define HP_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define HP_THREAD_ANNOTATION(x)
#endif
#define HP_CAPABILITY(x) HP_THREAD_ANNOTATION(capability(x))
#define HP_SCOPED_CAPABILITY HP_THREAD_ANNOTATION(scoped_lockable)
#define HP_GUARDED_BY(x) HP_THREAD_ANNOTATION(guarded_by(x))
#define HP_PT_GUARDED_BY(x) HP_THREAD_ANNOTATION(pt_guarded_by(x))
#define HP_REQUIRES(...) HP_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define HP_EXCLUDES(...) HP_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define HP_ACQUIRE(...) HP_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HP_RELEASE(...) HP_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define HP_ACQUIRED_BEFORE(...) HP_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define HP_NO_THREAD_SAFETY_ANALYSIS HP_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace hp {

/// std::mutex that clang's analysis knows. Never call back into a user's code while holding one.
class HP_CAPABILITY("mutex") Mutex {
 public:
  void Lock() HP_ACQUIRE() { mutex_.lock(); }
  void Unlock() HP_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class HP_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) HP_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() HP_RELEASE() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

/// A condition variable for Mutex. Wait in a loop over the condition: `while (!ready_) cv_.Wait(&mutex_);`
class CondVar {
 public:
  void Wait(Mutex* mutex) HP_REQUIRES(mutex) HP_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  /// @return false: `timeout` passed without a signal.
  bool WaitFor(Mutex* mutex, std::chrono::nanoseconds timeout) HP_REQUIRES(mutex) HP_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool signalled = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return signalled;
  }
  void Signal() { cv_.notify_one(); }
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace hp
