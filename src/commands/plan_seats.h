#pragma once

#include "commands/table_options.h"
#include "hp/status.h"
#include "input/input.h"

#include "rendezvous/job_rendezvous.h"

#include <string>

namespace hp {

/// How a table is to be made for processes that ask for one: flags of hpserver and hpnode.
///
/// Processes ask in any order, so what is said of one of them names its host, as IsOnHost reads it:
/// TableOptions::shares is a list of HOST:SHARE, each of the conv nodes there, others having 1; `profile` is a list of
/// files, each of the host that it names; the nodes of `exclude` get no entry. Conv nodes are in the order of their
/// hosts' names: those of the first conv stage before those of the second.
struct SeatPlanFlags {
  std::string solver;   ///< Caffe solver file, as it can be opened
  TableOptions table;   ///< with "auto" --conv and --fc say only how many nodes in all
  InputOptions inputs;  ///< as PlanFlags

  /// Whether any of them asks for a table. hpnode's default is "0" for both --conv and --fc.
  bool plans() const { return !table.plan.empty() || table.conv != "0" || table.fc != "0" || table.ps != 0; }
  /// For NodeRecord::request: those who say the same plan the same. Files by their names alone, whose folders hosts may
  /// have at different places.
  std::string request() const;
};

/// Checks the flags and the files that they name, so that faults are known before anybody waits.
/// @return kInvalidArgument, kNotFound: what is wrong.
Status CheckSeatPlan(const SeatPlanFlags& flags);

/// Whom the plan needs. @param flags checked (CHECK).
NodesWanted NodesWantedBy(const SeatPlanFlags& flags);

/// Plans for the processes that are due: with "auto" as hproute --plan=auto for hosts with what each says of itself,
/// else as hproute --conv --fc --ps. Each node of the table has the port of its process, and the address that
/// ChooseAddresses finds right. To a plan, processes of one host are one host, whose cores, memory and link they share.
TablePlanner MakeSeatPlanner(const SeatPlanFlags& flags);

}  // namespace hp
