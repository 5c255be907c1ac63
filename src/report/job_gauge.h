#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rank.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <map>
#include <vector>

namespace hp {

class IterationReport;

/// Logs how near training comes to what its nodes and links can do, from what all nodes measure and count: every
/// `display` iterations, and at the end for all of them:
///   gauge: iterations 20 to 39 took 61.7 ms each, limit 53.2 ms (node fc0 computes): 86% reached
///   gauge: iterations 20 to 39 took 61.7 ms each, limit 51.2 ms (host a sends 6.4 MB over 1 Gbit/s): 83% reached
/// The limit is the greatest time for which a node computes or a host's link sends or receives, in an iteration: no
/// order of work is faster with this table. Links whose speed the table does not say (link_gbit_per_s) are left out.
/// Nodes that share processors slow each other down, so that each takes longer and the limit is higher than it would
/// be. On the first node, owned by it. Any thread.
class JobGauge {
 public:
  /// Time counts from here on.
  /// @param table,clock must outlive it. @param display as the solver's; 0: only at the end.
  /// @param start_clock first iteration of this run.
  JobGauge(const RoutingTable& table, const Clock* clock, int64_t display, int64_t start_clock);
  /// The report of node `from` of an iteration, each once; those of one node in their order.
  void Add(Rank from, const IterationReport& report) HP_EXCLUDES(mutex_);
  /// The line for all iterations that all nodes have reported; none if there are none.
  void Finish() const HP_EXCLUDES(mutex_);

 private:
  /// What a node reports, all since the start of training.
  struct Use {
    int64_t computing_ns = 0, sent = 0, received = 0;
  };
  /// The end of an iteration: the moment at which the last report of it came.
  struct Mark {
    int64_t now_ns = 0, clocks = 0;  // clocks: iterations that are done, of all
    std::vector<Use> nodes;          // by rank
  };
  struct Limit;
  Limit LimitOf(const Mark& from, const Mark& to) const;
  void Print(const Mark& from, const Mark& to) const;

  const RoutingTable& table_;
  const Clock* const clock_;
  const int64_t display_;
  mutable Mutex mutex_;
  std::map<int64_t, std::map<Rank, Use>> open_ HP_GUARDED_BY(mutex_);  // by iteration; at most two
  Mark start_, shown_ HP_GUARDED_BY(mutex_), last_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
