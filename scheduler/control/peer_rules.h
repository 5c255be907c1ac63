#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "proto/wire.pb.h"
#include "scheduler/control/exchange_rules.h"
#include "scheduler/control/resume_rules.h"
#include "scheduler/plan/job_plan.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace hp {

/// Who may say what. Every grant and message of the transport passes here before a part of the node sees it, so that
/// the parts need not doubt what they are given. A peer is one of two kinds:
/// - A client, which is anybody who knows the job's name: it may ask the first node for weights and for the status of
/// the
///   job, and nothing else. One that has proven that it may control the job (kFirstControllerRank) may give it orders.
/// - A node of the job: it may send what its place in the table has it send, in that order, each number within the
///   range that the plan gives it.
/// Each function returns ok or kInvalidArgument with what was wrong; the caller then breaks the connection. That costs
/// the job nothing if the peer is a client; a node counts as lost.
///
/// The progress thread; from SetPlan until the Gate is open the main thread calls the second group.
class PeerRules {
 public:
  /// Messages that a node may send before this one has a plan, in bytes: labels that are read ahead.
  static constexpr size_t kMaxEarlyBytes = size_t{64} << 20;
  static constexpr int kMaxEarlyMessages = 1 << 16;
  /// The longest text of NodeStatus::last_warning and of a NodeStatus::line, in bytes, and the most of these lines.
  static constexpr size_t kMaxWarning = 1024, kMaxLine = 256;
  static constexpr int kMostLines = 64;

  /// @param table must outlive this. @param self our own rank.
  PeerRules(const RoutingTable& table, Rank self) : table_(table), self_(self) {}

  // --- Before anything is kept of it
  /// Whether `from` may send messages of this type and size, and so many of them.
  Status CheckMessage(Rank from, uint32_t type, size_t bytes) HP_EXCLUDES(mutex_);
  /// An order of a client that may give one: known, and its numbers in range.
  static Status CheckOrder(const JobOrder& order);
  /// Whether `from` may grant us places.
  Status CheckGranter(Rank from) const;

  /// Pieces of a snapshot that nodes ask for before they train.
  ResumeRules* resume() { return &resume_; }

  // --- Peers that broke a rule: what else they sent is not looked at. Any thread.
  /// @return whether this is the first time.
  bool MarkRefused(Rank peer) HP_EXCLUDES(mutex_);
  bool IsRefused(Rank peer) HP_EXCLUDES(mutex_);
  /// Its connection has ended.
  void Forget(Rank peer) HP_EXCLUDES(mutex_);

  // --- In an assembled node
  /// What the functions below compare with. Once, before them. @param job must outlive this.
  /// @param start_clock the first iteration of this run. @param exchanges in which this node takes part.
  void SetPlan(const JobPlan* job, int64_t start_clock, std::vector<ExchangePlaces> exchanges = {}) HP_EXCLUDES(mutex_);
  /// A place for a tensor, a slice or gradients that this node writes to `from`, of just its size.
  /// @param clocks_reported BoundaryRequests::clocks_reported.
  Status CheckGrant(Rank from, const PlaceTag& tag, size_t bytes, int64_t clocks_reported);
  /// The report of the next iteration of `from`, of those that may be open (BoundaryRequests::DelayOf). @param
  /// clocks_judged BoundaryRequests::clocks_judged.
  Status CheckReport(Rank from, const IterationReport& report, int64_t clocks_judged);
  /// The verdict on the next iteration, which this node has reported. The first node sends them in order
  /// (BoundaryRequests::AddReport), on one connection. @param clocks_reported BoundaryRequests::clocks_reported.
  Status CheckVerdict(const Verdict& verdict, int64_t clocks_reported);
  /// Labels of rows that `from` reads.
  Status CheckLabels(Rank from, const LabelsMessage& labels) const;
  /// The copy of a snapshot of this run, by the node that writes copies.
  Status CheckCopied(const SnapshotCopied& copied) const;
  /// What a node has written of a snapshot of this run.
  Status CheckPart(const SnapshotPartWritten& part) const;
  /// One value for each output of a micro-batch that `from` computes.
  Status CheckStatistics(Rank from, const StatisticsMessage& statistics) const;

 private:
  bool IsClient(Rank from) const { return from >= table_.size(); }
  /// Whether both are replicas of one stage, which exchange gradients.
  bool ExchangesWith(Rank from) const;
  /// The replica that `from` is of the stage that reads records; -1: none.
  int ReplicaOf(Rank from) const;
  /// Whether a clock of this run has training (or a test) at `clock`.
  bool HasPhase(int64_t clock, bool train) const;
  Status CheckListed(MsgId id) const;
  Status CheckSlice(Rank from, const PlaceTag& tag, size_t bytes) const;
  /// Whether each is a parameter of the net, once, with sums of squares.
  bool AreNorms(const google::protobuf::RepeatedPtrField<ParamSquares>& params) const;
  static Status CheckStatus(const NodeStatus& status);
  Status CountEarly(Rank from, size_t bytes) HP_EXCLUDES(mutex_);

  const RoutingTable& table_;
  const Rank self_;
  const JobPlan* job_ = nullptr;  // written before the Gate opens, read after
  int64_t start_clock_ = 0;
  ExchangeRules exchanges_;
  ResumeRules resume_;
  std::map<Rank, int64_t> next_report_;  // clocks; absent: start_clock_
  int64_t next_verdict_ = 0;             // a clock; all before it have come
  struct Early {
    int messages = 0;
    size_t bytes = 0;
  };
  std::map<Rank, size_t> rendezvous_;  // bytes, by peer
  Mutex mutex_;
  bool planned_ HP_GUARDED_BY(mutex_) = false;
  std::set<Rank> refused_ HP_GUARDED_BY(mutex_);
  std::map<Rank, Early> early_ HP_GUARDED_BY(mutex_);  // by peer, until SetPlan
};

}  // namespace hp
