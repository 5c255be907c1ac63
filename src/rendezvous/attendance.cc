#include "rendezvous/attendance.h"

#include "base/clock.h"

#include <glog/logging.h>

#include <chrono>
#include <utility>

namespace hp {
namespace {

constexpr std::chrono::seconds kSayEach(1), kSayEnd(1);

}  // namespace

Attendance::Attendance(std::unique_ptr<JobRendezvous> rendezvous, NodeRecord record)
    : rendezvous_(std::move(rendezvous)), record_(std::move(record)), thread_("rendezvous", [this] { Run(); }) {}

Attendance::~Attendance() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void Attendance::SetEnding(int exit_status) {
  if (ending_) return;
  ending_ = true;
  exit_status_ = exit_status;
  changed_.SignalAll();
}

void Attendance::BeginEnd(int exit_status) {
  MutexLock lock(&mutex_);
  SetEnding(exit_status);
}

void Attendance::End(int exit_status) {
  MutexLock lock(&mutex_);
  SetEnding(exit_status);
  if (std::exchange(awaited_, true)) return;
  const int64_t until_ns = Clock::Real()->NowNs() + std::chrono::nanoseconds(kSayEnd).count();
  while (!said_ && !warned_ && Clock::Real()->NowNs() < until_ns) changed_.WaitFor(&mutex_, kSayEnd);
}

NodeRecord Attendance::Next() {
  MutexLock lock(&mutex_);
  record_.set_iteration(iteration_);
  record_.set_state(ending_ ? NodeRecord::ENDED : NodeRecord::RUNNING);
  if (ending_) record_.set_exit_status(exit_status_);
  return record_;
}

void Attendance::Say(const NodeRecord& record) {
  const StatusOr<RendezvousAnswer> answer = rendezvous_->Tell(record);
  const bool refused = answer.ok() && answer->kind() == RendezvousAnswer::REFUSED;
  if (answer.ok() && !refused) return;
  if (!warned_) {
    LOG(WARNING) << rendezvous_->name() << " does not hear this node, which goes on without it: "
                 << (refused ? answer->text() : answer.status().message());
  }
  warned_ = true;
}

void Attendance::Run() {
  while (true) {
    const NodeRecord record = Next();
    Say(record);
    MutexLock lock(&mutex_);
    if (record.state() == NodeRecord::ENDED) {
      said_ = true;
      changed_.SignalAll();
      return;
    }
    if (!ending_ && !stop_) changed_.WaitFor(&mutex_, kSayEach);
    if (stop_) return;
  }
}

}  // namespace hp
