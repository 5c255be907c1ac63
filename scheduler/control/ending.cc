#include "scheduler/control/ending.h"

#include "glog/logging.h"

#include <chrono>

namespace hp {
namespace {

constexpr auto kStallReport = std::chrono::seconds(15);
constexpr int kStopTimeoutMs = 2'000;
constexpr auto kLeaveLinger = std::chrono::seconds(3);  // the watch takes less to tell the others

}  // namespace

// The others hear the cause before we go: the watch says it, reads on for a moment, and then calls OnLost.
void Ending::Fail(const Status& status) {
  bool over = false;
  const bool apart = !meeting_->apart().ok();  // then that has been said
  meeting_->Abort(status);                     // ahead of failure_: see OnLost
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    over = watch_over_;
    if (!apart) LOG(ERROR) << "node " << options_.node << ": " << status.message();
    changed_.SignalAll();
  }
  if (over) {
    Leave();
  } else {
    watch_->Fail(status.message());
  }
}

void Ending::OnLost(const Status& status, bool said) {
  {
    MutexLock lock(&mutex_);
    watch_over_ = true;
  }
  // While the meeting still tells others it goes on, unless this node fails as well: of Fail and this one, the later
  // leaves.
  if (meeting_->OnLost(status, said)) return;
  const Status apart = meeting_->apart();
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) {
      failure_ = apart.ok() ? status : apart;  // then the others only say what we know
      if (apart.ok()) LOG(ERROR) << failure_.message();
    }
    changed_.SignalAll();
  }
  meeting_->Abort(status);
  Leave();
}

void Ending::OnStopped(const Status& status) {
  MutexLock lock(&mutex_);
  stopped_ = status;
  changed_.SignalAll();
}

void Ending::OnExecuted(const Status& status, bool finished) {
  if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled) {
    // A collective failed because a replica is lost: the watch finds out which, and ends the job. Or we are ending.
    LOG(WARNING) << status;
  } else if (!status.ok()) {
    Fail(status);
  }
  MutexLock lock(&mutex_);
  finished_ = finished;
  changed_.SignalAll();
}

void Ending::Leave() {
  const Status status = failure();
  if (options_.leave) options_.leave(status);
  options_.abort(status);
  MutexLock lock(&mutex_);
  left_ = true;
  changed_.SignalAll();
}

Status Ending::WaitForWork() {
  Status status;
  {
    MutexLock lock(&mutex_);
    std::string seen;
    while (!finished_ && failure_.ok() && stopped_.ok()) {
      if (changed_.WaitFor(&mutex_, kStallReport)) continue;
      const std::string now = options_.describe();
      if (now == seen) LOG(INFO) << "node " << options_.node << " waits: " << now;
      seen = now;
    }
    status = !stopped_.ok() ? stopped_ : failure_;
  }
  if (status.code() == StatusCode::kNumeric) {
    LOG(ERROR) << status.message();
    watch_->Leave(kStopTimeoutMs);
    if (options_.leave) options_.leave(status);
  }
  return status;
}

void Ending::WaitForLeave() {
  const auto until = std::chrono::steady_clock::now() + kLeaveLinger;
  MutexLock lock(&mutex_);
  while (!failure_.ok() && !left_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !changed_.WaitFor(&mutex_, left)) return;
  }
}

Status Ending::failure() {
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace hp
