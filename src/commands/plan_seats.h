#pragma once

#include "hp/status.h"

#include "rendezvous/job_rendezvous.h"

#include <string>

namespace hp {

/// How a table is to be planned for processes that ask for one: flags of hpserver and hpnode.
struct SeatPlanFlags {
  std::string solver;             ///< Caffe solver file, as it can be opened
  std::string plan;               ///< "auto" or empty
  int conv = 0, fc = 0, ps = 0;   ///< nodes of each role; with "auto" only how many in all
  std::string sample, cache_dir;  ///< as PlanFlags

  /// Whether any of them asks for a plan.
  bool plans() const { return !plan.empty() || conv > 0 || fc > 0 || ps > 0; }
  /// For NodeRecord::request: those who say the same plan the same.
  std::string request() const;
};

/// Checks the flags and the files that they name, so that faults are known before anybody waits.
/// @return kInvalidArgument, kNotFound: what is wrong.
Status CheckSeatPlan(const SeatPlanFlags& flags);

/// Whom the plan needs.
NodesWanted NodesWantedBy(const SeatPlanFlags& flags);

/// Plans for the processes that are due: with "auto" as hproute --plan=auto for hosts with what each says of itself,
/// else as hproute --conv --fc --ps. Each node of the table has the address and port of its process. Processes of one
/// host share its cores and memory; that they share its link is not counted.
TablePlanner MakeSeatPlanner(const SeatPlanFlags& flags);

}  // namespace hp
