#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rank.h"
#include "proto/wire.pb.h"
#include "scheduler/plan/job_plan.h"
#include "scheduler/plan/routing_table.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// How the job is, for hpctl: what all nodes said of themselves in their reports, put together. A question is answered
/// from what is here, so that no node is asked and none waits. Finds which node is slow, for the next verdict to say
/// to all, so that the node names itself in its own log: one that waits for nobody while all others wait for other
/// nodes most of the time (kSlowWait), over a window of kWindowNs. Only nodes whose stage has others are named: where a
/// stage of one node is the bottleneck, another table helps, and not another host. On the first node, owned by it. Any
/// thread.
class StatusBoard {
 public:
  /// Nodes are compared over so long.
  static constexpr int64_t kWindowNs = 5 * kNsPerSecond;
  /// All others wait for nodes for this part of the time, and the slow one for no more than kBusyWait.
  static constexpr double kSlowWait = 0.5, kBusyWait = 0.2;
  /// A node whose latest report is older is silent.
  static constexpr int64_t kSilentNs = 10 * kNsPerSecond;
  /// Pairs of nodes in a status, which is to fit into one message.
  static constexpr size_t kMostLinks = 4096;

  /// Begins as JobStatus::STARTING. @param table,clock must outlive it.
  StatusBoard(const RoutingTable& table, const Clock* clock);

  /// Training begins. Once. @param job must outlive it. @param start_clock first iteration of this run.
  /// @param precision for the status; until then it is the table's.
  void Begin(const JobPlan* job, std::string run_id, int64_t start_clock, std::string precision) HP_EXCLUDES(mutex_);
  /// The report of node `from` of an iteration, each once; those of one node in their order. After Begin.
  void Add(Rank from, const IterationReport& report) HP_EXCLUDES(mutex_);
  /// The node that was found to be slow since the last call; each once for as long as it stays so.
  std::optional<SlowNode> TakeSlow() HP_EXCLUDES(mutex_);
  /// @param stop_at in front of which iteration the job stops; nothing: nobody stops it.
  JobStatus Describe(std::optional<int64_t> stop_at) const HP_EXCLUDES(mutex_);

 private:
  /// What a node said of itself, and when it came.
  struct Part {
    NodeStatus status;
    int64_t clocks = 0;  // it had done
  };
  struct Node {
    int64_t clocks = 0, reported_ns = 0;  // done; when its latest report came
    std::optional<Part> latest, before;   // parts of the status
    std::optional<Part> window;           // where the window of the comparison begins
    bool slow = false;
  };
  NodeState Describe(const NodeInfo& info, const Node& node, int64_t now_ns) const HP_REQUIRES(mutex_);
  void AddLinks(JobStatus* status) const HP_REQUIRES(mutex_);
  void LookForSlow() HP_REQUIRES(mutex_);
  void KeepLines(const NodeInfo& node, const NodeStatus& status) HP_REQUIRES(mutex_);

  const RoutingTable& table_;
  const Clock* const clock_;
  const int64_t start_ns_;
  mutable Mutex mutex_;
  const JobPlan* job_ HP_GUARDED_BY(mutex_) = nullptr;
  std::string run_id_ HP_GUARDED_BY(mutex_);
  std::string precision_ HP_GUARDED_BY(mutex_);
  std::vector<Node> nodes_ HP_GUARDED_BY(mutex_);  // by rank
  LearningStatus learning_ HP_GUARDED_BY(mutex_);
  google::protobuf::RepeatedPtrField<LoggedLine> lines_ HP_GUARDED_BY(mutex_);  // TrimLines
  int64_t lines_said_ HP_GUARDED_BY(mutex_) = 0;
  std::optional<SlowNode> found_slow_ HP_GUARDED_BY(mutex_);                              // not taken yet
  std::map<std::pair<Rank, Rank>, std::set<std::string>> tensors_ HP_GUARDED_BY(mutex_);  // by sender and receiver
};

}  // namespace hp
