#include "commands/signals.h"

#include "base/clock.h"
#include "base/format.h"
#include "node/node.h"

#include "glog/logging.h"
#include <pthread.h>
#include <unistd.h>

#include <ctime>
#include <optional>
#include <utility>

namespace hp {
namespace {

// After the time for a stop: for telling the other nodes.
constexpr int64_t kLastWordsNs = 3 * kNsPerSecond;

bool IsIgnored(int signal) {
  struct sigaction before = {};
  return sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

/// @param left_ns how long to wait; nothing: for ever. @return 0 or less: none came.
int WaitForSignal(const sigset_t& signals, const std::optional<int64_t>& left_ns) {
  if (!left_ns) {
    int signal = 0;
    sigwait(&signals, &signal);
    return signal;
  }
  const timespec left = {static_cast<time_t>(*left_ns / kNsPerSecond), static_cast<long>(*left_ns % kNsPerSecond)};
  return sigtimedwait(&signals, nullptr, &left);
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
  ::signal(SIGXFSZ, SIG_IGN);
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
    const bool stopping = stop_asked_ns_ != 0;
    std::optional<int64_t> left_ns;
    if (stopping) {
      const int64_t limit_ns = options_.stop_within_s * kNsPerSecond + (late_ ? kLastWordsNs : 0);
      left_ns = stop_asked_ns_ + limit_ns - Clock::Real()->NowNs();
    } else if (!limit_reached_) {
      left_ns = options_.limit.LeftNs();
    }
    if (left_ns && *left_ns <= 0) {
      stopping ? OnLate() : OnTimeLimit();
      continue;
    }
    const int signal = WaitForSignal(signals_, left_ns);
    if (signal > 0) OnSignal(signal);
  }
}

SignalThread::Effect SignalThread::EffectOf(int signal) const {
  if (signal == SIGINT) return options_.on_sigint;
  return signal == SIGHUP ? options_.on_sighup : Effect::kStop;
}

void SignalThread::OnSignal(int signal) {
  const Effect effect = EffectOf(signal);
  if (effect == Effect::kNone) return;
  const int64_t now_ns = Clock::Real()->NowNs();
  if (signal == SIGINT && effect == Effect::kStop) {
    if (interrupted_ns_ != 0 && now_ns - interrupted_ns_ > kNsPerSecond) EndBy(SIGINT);
    if (interrupted_ns_ == 0) interrupted_ns_ = now_ns;
  }
  MutexLock lock(&mutex_);
  if (done_) return;  // the process is about to end
  if (effect == Effect::kSnapshot && node_ != nullptr && node_->training()) return node_->RequestSnapshot();
  if (stop_asked_ns_ == 0) Stop(std::string("as asked by ") + sigabbrev_np(signal));
}

void SignalThread::OnTimeLimit() {
  MutexLock lock(&mutex_);
  limit_reached_ = true;
  if (!done_) Stop(Format("%d s ahead of the end of the allocation", options_.limit.before_s()));
}

void SignalThread::Stop(const std::string& why) {
  stop_asked_ns_ = Clock::Real()->NowNs();
  LOG(INFO) << "stopping, " << why << ": in " << options_.stop_within_s << " s at most";
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

StatusOr<SignalThread::Effect> EffectOfFlag(const char* flag, const std::string& word) {
  if (word == "stop") return SignalThread::Effect::kStop;
  if (word == "snapshot") return SignalThread::Effect::kSnapshot;
  if (word == "none") return SignalThread::Effect::kNone;
  return InvalidArgument("--%s is \"%s\"; expected stop, snapshot or none", flag, word.c_str());
}

}  // namespace hp
