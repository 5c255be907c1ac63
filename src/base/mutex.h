#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Clang's thread-safety annotations: clang++ -Wthread-safety checks them at compile time, for other compilers they are
// empty.
//   HP_GUARDED_BY(mu)       on a member: read and written only with mu held; HP_PT_GUARDED_BY: what it points to
//   HP_REQUIRES(mu)         on a function: the caller holds mu
//   HP_EXCLUDES(mu)         on a function: the caller does not hold mu, which the function locks
//   HP_ACQUIRE, HP_RELEASE  on a function: it locks, or unlocks, the mutex for its caller
//   HP_ACQUIRED_BEFORE(mu)  on a mutex: its place in the lock order
// Source: clang.llvm.org/docs/ThreadSafetyAnalysis.html.
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

/// std::mutex that clang's analysis knows; not recursive. Prefer MutexLock to Lock and Unlock. House rule: no callback
/// or virtual method of a user is called while one is held.
class HP_CAPABILITY("mutex") Mutex {
 public:
  void Lock() HP_ACQUIRE() { mutex_.lock(); }
  void Unlock() HP_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds `mutex` for its own lifetime.
class HP_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) HP_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() HP_RELEASE() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

/// A condition variable for Mutex. A wait may end without a signal, so wait in a loop over the condition:
///   MutexLock lock(&mutex_);
///   while (!ready_) cv_.Wait(&mutex_);
/// Signal and SignalAll may be called with or without the mutex held.
class CondVar {
 public:
  /// Releases `mutex`, waits for a signal, and locks it again. All waiters of one CondVar use the same mutex.
  void Wait(Mutex* mutex) HP_REQUIRES(mutex) HP_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  /// Wait, for at most `timeout`. @return false: `timeout` passed without a signal; the mutex is held again either way.
  bool WaitFor(Mutex* mutex, std::chrono::nanoseconds timeout) HP_REQUIRES(mutex) HP_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool signalled = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return signalled;
  }
  /// Wakes one waiter, if there is any.
  void Signal() { cv_.notify_one(); }
  /// Wakes all waiters.
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace hp
