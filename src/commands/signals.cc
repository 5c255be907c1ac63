#include "commands/signals.h"

#include "base/clock.h"
#include "node/node.h"

#include "glog/logging.h"
#include <pthread.h>
#include <unistd.h>

#include <ctime>
#include <utility>

namespace hp {
namespace {

// After the time for a stop: for telling the other nodes.
constexpr int64_t kLastWordsNs = 3 * kNsPerSecond;

bool IsIgnored(int signal) {
  struct sigaction before = {};
  return sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

// As the signal would have ended it. The kernel spares a container's first process, hence the exit.
[[noreturn]] void EndBy(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace

SignalThread::SignalThread(Options options) : options_(std::move(options)) {
  ::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&signals_);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals_, signal);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = Thread("signals", [this] { Run(); });
}

void SignalThread::Serve(Node* node) {
  MutexLock lock(&mutex_);
  node_ = node;
  done_ = node == nullptr;
}

void SignalThread::Run() {
  for (;;) {
    int signal = 0;
    if (stop_asked_ns_ == 0) {
      sigwait(&signals_, &signal);
    } else {
      const int64_t limit_ns = options_.stop_within_s * kNsPerSecond + (late_ ? kLastWordsNs : 0);
      const int64_t left_ns = stop_asked_ns_ + limit_ns - Clock::Real()->NowNs();
      if (left_ns <= 0) {
        OnLate();
        continue;
      }
      const timespec left = {static_cast<time_t>(left_ns / kNsPerSecond), static_cast<long>(left_ns % kNsPerSecond)};
      signal = sigtimedwait(&signals_, nullptr, &left);
    }
    if (signal > 0) OnSignal(signal);
  }
}

void SignalThread::OnSignal(int signal) {
  const int64_t now_ns = Clock::Real()->NowNs();
  if (signal == SIGINT) {
    if (interrupted_ns_ != 0 && now_ns - interrupted_ns_ > kNsPerSecond) EndBy(SIGINT);
    if (interrupted_ns_ == 0) interrupted_ns_ = now_ns;
  }
  MutexLock lock(&mutex_);
  if (done_) return;  // the process is about to end
  if (signal == SIGHUP && node_ != nullptr && node_->training()) return node_->RequestSnapshot();
  if (stop_asked_ns_ != 0) return;
  stop_asked_ns_ = now_ns;
  LOG(INFO) << "stopping, as asked by " << sigabbrev_np(signal) << ": in " << options_.stop_within_s << " s at most";
  if (node_ != nullptr && node_->RequestStop()) return;
  options_.leave(Stopped("stopped before training began"));
}

void SignalThread::OnLate() {
  MutexLock lock(&mutex_);
  if (late_ || node_ == nullptr) options_.leave(Stopped("stopped"));
  late_ = true;
  node_->Fail(
      Stopped("did not stop at a boundary within %d s (--stop_within_s): what was trained since the last "
              "snapshot is lost",
              options_.stop_within_s));
}

}  // namespace hp
