#pragma once

#include "base/clock.h"
#include "base/payload.h"
#include "base/rank.h"
#include "scheduler/pipeline/time_use.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace hp {

class IterationReport;

/// What a node has done since the start of training.
struct NodeUse {
  TimeUse time;
  std::map<Rank, Payload> payload;  ///< of training, by peer
};

/// Adds to the report of `self` what the JobGauge needs: its time, and what it sent to and received from nodes that
/// are, as the table names them, on other hosts.
void AddUse(const RoutingTable& table, Rank self, const NodeUse& use, IterationReport* report);

/// Logs where a node's time went, every `display` iterations and at the end for all of them:
///   node conv0: 20 iterations in 1.234 s: computing 81.2%, waiting for input 0.3%, gradients 12.1%; sent 12.3 MB,
///   received 12.3 MB
/// What is below 0.05% is left out. Owned by the node.
class NodeGauge {
 public:
  /// Time counts from here on.
  /// @param node its name, for the lines. @param clock must outlive it.
  /// @param display iterations between two lines, as the solver's; 0: only at the end.
  /// @param use asked for each line; any thread, no lock held.
  NodeGauge(std::string node, const Clock* clock, int64_t display, std::function<NodeUse()> use);
  /// The updates of `clock` are done. One thread: that of Executor::Options::after_task.
  void OnClockDone(int64_t clock);
  /// The line for all of training. After the last OnClockDone.
  void Finish() const;

 private:
  /// A moment, and what was used and done until then.
  struct Mark {
    int64_t now_ns = 0, clocks = 0;
    NodeUse use;
  };
  Mark Now() const { return {clock_->NowNs(), clocks_, use_()}; }
  void Print(const Mark& from, const Mark& to) const;

  const std::string node_;
  const Clock* const clock_;
  const int64_t display_;
  const std::function<NodeUse()> use_;
  int64_t clocks_ = 0;  // done
  Mark start_, last_;   // last_: the last line
};

}  // namespace hp
