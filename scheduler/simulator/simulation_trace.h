#pragma once

#include "base/rank.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/simulator/simulated_network.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// All that happens in a simulation, for chrome://tracing or ui.perfetto.dev. A process is a node, with three threads:
/// what its executor computes, what it sends, and what arrives, the last two as its share of its host's link.
/// Source: "Trace Event Format" (the Chromium project), complete events ("X") and metadata ("M").
class SimulationTrace {
 public:
  void AddTask(Rank rank, const Task& task, int64_t begin_ns, int64_t ns);
  /// @param name of the message.
  void AddFrame(const SimulatedFrame& frame, const std::string& name);
  /// @param nodes names, by rank. @return a JSON object.
  std::string Json(const std::vector<std::string>& nodes) const;
  bool empty() const { return spans_.empty(); }
  /// "3:1.0": clock, micro-batch and replica.
  static std::string NameOf(MsgId id);

 private:
  enum Thread { kExecutor = 1, kLinkOut, kLinkIn };
  struct Span {
    Rank rank = 0;
    Thread thread = kExecutor;
    std::string name;
    int64_t begin_ns = 0, ns = 0;
  };
  /// Behind the thread's last span if that has the same name and ends where this begins.
  void Add(Span span);

  std::vector<Span> spans_;
  std::vector<std::array<int64_t, 4>> last_;  // by rank and thread: index into spans_, -1: none
};

}  // namespace hp
