// Two things must have happened before this node leaves with a failure: the reason is known here (failure_), and the
// failure detector has told the others (OnLost). They come in either order, on different threads, and whichever is
// second calls Leave. Where another node is lost, the detector brings both at once.
#include "scheduler/control/shutdown.h"

#include "glog/logging.h"

#include <chrono>

namespace hp {
namespace {

constexpr auto kStallReport = std::chrono::seconds(15);
constexpr int kStopTimeoutMs = 2'000;
constexpr auto kLeaveLinger = std::chrono::seconds(3);  // the failure detector takes less to tell the others

}  // namespace

// The others hear the cause before this node leaves: the failure detector sends it, reads on for a moment, and then
// calls OnLost.
void Shutdown::Fail(const Status& status) {
  bool over = false;
  const bool rejected = !bootstrap_->rejection().ok();  // then the bootstrap has logged why
  bootstrap_->Abort(status);                            // ahead of failure_: see OnLost
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    over = detector_done_;
    if (!rejected) LOG(ERROR) << "node " << options_.node << ": " << status.message();
    changed_.SignalAll();
  }
  if (over) {
    Leave();
  } else {
    failure_detector_->Fail(status);
  }
}

void Shutdown::OnLost(const Status& status, bool said) {
  {
    MutexLock lock(&mutex_);
    detector_done_ = true;
  }
  // While the bootstrap still tells others, this node stays, unless it fails as well: of Fail and OnLost, the later one
  // leaves.
  if (bootstrap_->OnLost(status, said)) return;
  const Status rejection = bootstrap_->rejection();
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) {
      failure_ = rejection.ok() ? status : rejection;  // the others only repeat what we know
      if (rejection.ok()) LOG(ERROR) << failure_.message();
    }
    changed_.SignalAll();
  }
  bootstrap_->Abort(status);
  Leave();
}

void Shutdown::OnStopped(const Status& status) {
  MutexLock lock(&mutex_);
  if (stopped_.ok()) stopped_ = status;  // verdicts of later clocks may be on their way already
  changed_.SignalAll();
}

void Shutdown::OnExecuted(const Status& status, bool finished) {
  if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled) {
    // It needed a node that is lost: the failure detector finds out which, and ends the job. Or we are ending.
    LOG(WARNING) << status;
  } else if (!status.ok()) {
    Fail(status);
  }
  MutexLock lock(&mutex_);
  finished_ = finished;
  changed_.SignalAll();
}

void Shutdown::Leave() {
  const Status status = failure();
  if (options_.leave) options_.leave(status);
  options_.abort(status);
  MutexLock lock(&mutex_);
  left_ = true;
  changed_.SignalAll();
}

Status Shutdown::WaitForWork() {
  Status status;
  {
    MutexLock lock(&mutex_);
    std::string seen;
    while (!finished_ && failure_.ok() && stopped_.ok()) {
      if (changed_.WaitFor(&mutex_, kStallReport)) continue;
      const std::string now = options_.describe();
      if (now == seen) LOG(INFO) << "node " << options_.node << " is waiting: " << now;
      seen = now;
    }
    status = !stopped_.ok() ? stopped_ : failure_;
  }
  if (status.code() == StatusCode::kNumeric) {
    LOG(ERROR) << status.message();
    (void)failure_detector_->Leave(kStopTimeoutMs);  // however it ends
    if (options_.leave) options_.leave(status);
  }
  return status;
}

void Shutdown::WaitForLeave() {
  const auto until = std::chrono::steady_clock::now() + kLeaveLinger;
  MutexLock lock(&mutex_);
  while (!failure_.ok() && !left_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !changed_.WaitFor(&mutex_, left)) return;
  }
}

Status Shutdown::AwaitFailure() {
  const auto until = std::chrono::steady_clock::now() + kLeaveLinger;
  MutexLock lock(&mutex_);
  while (failure_.ok()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !changed_.WaitFor(&mutex_, left)) break;
  }
  return failure_;
}

Status Shutdown::failure() {
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace hp
