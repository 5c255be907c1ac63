#pragma once

#include "hp/status.h"
#include "scheduler/plan/table_maker.h"

#include "rendezvous/job_rendezvous.h"

#include <string>

namespace hp {

/// How a table is to be planned for processes that ask for one: flags of hpserver and hpnode.
struct SeatPlanFlags {
  std::string solver;             ///< Caffe solver file, as it can be opened
  std::string plan;               ///< "auto" or empty
  int conv = 0, fc = 0, ps = 0;   ///< nodes of each role; with "auto" only how many in all
  std::string sample, cache_dir;  ///< as PlanFlags
  TableRequest table = {};        ///< the rest of what hproute is asked for; solver, numbers of nodes, hosts not read

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
/// else as hproute --conv --fc --ps. Each node of the table has the port of its process, and the address that
/// ChooseAddresses finds right. To a plan, processes of one host are one host, whose cores, memory and link they share.
TablePlanner MakeSeatPlanner(const SeatPlanFlags& flags);

}  // namespace hp
