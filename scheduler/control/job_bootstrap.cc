// Every peer is in one of three states: connected (and later its route settled), refused, or still to come. Wait ends
// when all routes are settled, or, once there is a reason why the job can't start (rejection_), when no peer is still
// to come that has to hear it. The transport sends the reason itself, as the answer to a peer's hello
// (JobHandshake::GiveUp).
#include "scheduler/control/job_bootstrap.h"

#include "glog/logging.h"

#include <chrono>
#include <string>

namespace hp {
namespace {

constexpr auto kReport = std::chrono::seconds(15);

}  // namespace

JobBootstrap::JobBootstrap(const RoutingTable& table, const JobFacts& facts)
    : table_(table),
      self_(facts.rank),
      handshake_(table, facts,
                 {.on_fatal =
                      [this](const Status& status) {
                        MutexLock lock(&mutex_);
                        Reject(status);
                      },
                  .on_refused = [this](Rank peer, const Status& refused_us) { OnRefused(peer, refused_us); }}) {}

Status JobBootstrap::Wait() {
  MutexLock lock(&mutex_);
  while (static_cast<int>(settled_.size()) < table_.size() - 1 && aborted_.ok() && rejection_.ok()) {
    if (!changed_.WaitFor(&mutex_, kReport)) LogUnsettledRoutes();
  }
  while (!rejection_.ok() && aborted_.ok() && !AllInformed()) changed_.Wait(&mutex_);
  waiting_ = false;
  return rejection_.ok() ? aborted_ : rejection_;
}

void JobBootstrap::LogUnsettledRoutes() const {
  std::string names;
  for (Rank peer : connected_) {
    if (!settled_.contains(peer)) names += " " + table_.node(peer).name;
  }
  if (names.empty()) return;  // peers that are not connected have a deadline of their own
  LOG(INFO) << "node " << table_.node(self_).name << " is waiting for GPU peer access to be set up with" << names;
}

void JobBootstrap::Reject(const Status& status) {
  if (!rejection_.ok()) return;
  rejection_ = status;
  LOG(ERROR) << "node " << table_.node(self_).name << ": " << status.message();
  changed_.SignalAll();
}

void JobBootstrap::Abort(const Status& status) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = status;
  changed_.SignalAll();
}

bool JobBootstrap::AllInformed() const {
  for (Rank rank = 0; rank < table_.size(); ++rank) {
    if (rank == self_ || connected_.contains(rank) || refused_.contains(rank)) continue;
    if (rank == 0 || self_ == 0) return false;
  }
  return true;
}

void JobBootstrap::OnConnected(Rank peer) {
  handshake_.OnConnected(peer);
  MutexLock lock(&mutex_);
  connected_.insert(peer);
  changed_.SignalAll();
}

void JobBootstrap::OnRouteSettled(Rank peer) {
  MutexLock lock(&mutex_);
  settled_.insert(peer);
  changed_.SignalAll();
}

bool JobBootstrap::OnConnectFailed(Rank peer) {
  MutexLock lock(&mutex_);
  refused_.insert(peer);
  changed_.SignalAll();
  return rejection_.ok();
}

void JobBootstrap::OnRefused(Rank peer, const Status& refused_us) {
  bool rejected = false;
  {
    MutexLock lock(&mutex_);
    refused_.insert(peer);
    rejected = waiting_ && !refused_us.ok() && !connected_.contains(peer);
    changed_.SignalAll();
  }
  if (rejected) handshake_.GiveUp(refused_us);
}

bool JobBootstrap::OnLost(const Status& status, bool said) {
  {
    MutexLock lock(&mutex_);
    // A stop is asked of all nodes, those that come later too, so nobody stays to tell them.
    if (!waiting_ || !said || !aborted_.ok() || status.code() == StatusCode::kStopped) return false;
    Reject(status);
  }
  handshake_.GiveUp(status);  // peers that connect later hear it from the first node
  return true;
}

Status JobBootstrap::rejection() const {
  MutexLock lock(&mutex_);
  return rejection_;
}

}  // namespace hp
