#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/plan/job_plan.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace hp {

/// What a node that lacks the snapshot asks a holder for: one of its own blocks of parameters.
struct ResumePiece {
  PlaceTag tag;       ///< ResumeTag
  int param = 0;      ///< index into NodePlan::params of the node that asks, and so of its ParamStore
  int array = 0;      ///< 0: its values; else the number of a history
  int64_t count = 0;  ///< floats
};

/// The pieces of one node, in the order in which it asks for them: of each parameter the values, then its
/// histories. A function of the plan, so the holder knows when it has given all. Any thread.
std::vector<ResumePiece> ResumePiecesOf(const JobPlan& job, Rank taker);

/// Which grants for pieces of a snapshot are in order: before a holder has its plan the first one of each node, and
/// then each piece of each node that is to get some, once and in order. A node grants its next place when the one
/// before it is filled, so what a holder keeps for later is one grant of each.
class ResumeRules {
 public:
  /// When a grant comes. Progress thread. @return kInvalidArgument: a second one ahead of SetPlan.
  Status CheckEarly(Rank from) HP_EXCLUDES(mutex_);
  /// Once, before Check. Main thread. @param takers nodes that this one gives pieces.
  void SetPlan(const JobPlan& job, const std::set<Rank>& takers) HP_EXCLUDES(mutex_);
  /// @param tag a ResumeTag. Main thread while the gate opens, then the progress thread.
  /// @return kInvalidArgument: what is wrong with the grant.
  Status Check(Rank from, const PlaceTag& tag, size_t bytes);

 private:
  struct Taker {
    std::vector<ResumePiece> pieces;
    size_t next = 0;
  };
  std::map<Rank, Taker> takers_;
  Mutex mutex_;
  bool planned_ HP_GUARDED_BY(mutex_) = false;
  std::set<Rank> early_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
