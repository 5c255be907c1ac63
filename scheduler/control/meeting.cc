#include "scheduler/control/meeting.h"

#include "glog/logging.h"

#include <chrono>
#include <string>

namespace hp {
namespace {

constexpr auto kReport = std::chrono::seconds(15);

}  // namespace

Meeting::Meeting(const RoutingTable& table, const JobFacts& facts)
    : table_(table),
      self_(facts.rank),
      handshake_(table, facts,
                 {.on_fatal =
                      [this](const Status& status) {
                        MutexLock lock(&mutex_);
                        SetApart(status);
                      },
                  .on_parted = [this](Rank peer, const Status& refused_us) { OnParted(peer, refused_us); }}) {}

Status Meeting::Wait() {
  MutexLock lock(&mutex_);
  while (static_cast<int>(settled_.size()) < table_.size() - 1 && aborted_.ok() && apart_.ok()) {
    if (!changed_.WaitFor(&mutex_, kReport)) LogUnsettled();
  }
  while (!apart_.ok() && aborted_.ok() && !AllTold()) changed_.Wait(&mutex_);
  waiting_ = false;
  return apart_.ok() ? aborted_ : apart_;
}

void Meeting::LogUnsettled() const {
  std::string names;
  for (Rank peer : met_) {
    if (!settled_.contains(peer)) names += " " + table_.node(peer).name;
  }
  if (names.empty()) return;  // those that are not here have a deadline
  LOG(INFO) << "node " << table_.node(self_).name
            << " waits for GPUs to reach each other's memory, its own and those of" << names;
}

void Meeting::SetApart(const Status& status) {
  if (!apart_.ok()) return;
  apart_ = status;
  LOG(ERROR) << "node " << table_.node(self_).name << ": " << status.message();
  changed_.SignalAll();
}

void Meeting::Abort(const Status& status) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = status;
  changed_.SignalAll();
}

// The first node of the table, to which all others come, keeps the door until it has told them all, or none comes any
// more: who comes late would wait in vain for nodes that are gone. The others only have to reach it.
bool Meeting::AllTold() const {
  for (Rank rank = 0; rank < table_.size(); ++rank) {
    if (rank == self_ || met_.contains(rank) || parted_.contains(rank)) continue;
    if (rank == 0 || self_ == 0) return false;
  }
  return true;
}

void Meeting::OnMet(Rank peer) {
  MutexLock lock(&mutex_);
  met_.insert(peer);
  changed_.SignalAll();
}

void Meeting::OnSettled(Rank peer) {
  MutexLock lock(&mutex_);
  settled_.insert(peer);
  changed_.SignalAll();
}

bool Meeting::OnConnectFailed(Rank peer) {
  MutexLock lock(&mutex_);
  parted_.insert(peer);
  changed_.SignalAll();
  return apart_.ok();
}

void Meeting::OnParted(Rank peer, const Status& refused_us) {
  bool apart = false;
  {
    MutexLock lock(&mutex_);
    parted_.insert(peer);
    apart = waiting_ && !refused_us.ok() && !met_.contains(peer);
    changed_.SignalAll();
  }
  if (apart) handshake_.GiveUp(refused_us);
}

bool Meeting::OnLost(const Status& status, bool said) {
  {
    MutexLock lock(&mutex_);
    if (!waiting_ || !said || !aborted_.ok()) return false;
    SetApart(status);
  }
  handshake_.GiveUp(status);  // who has not come yet hears it from the first node
  return true;
}

Status Meeting::apart() const {
  MutexLock lock(&mutex_);
  return apart_;
}

}  // namespace hp
