#pragma once

#include "hp/status.h"
#include "input/input.h"
#include "scheduler/planner/planner.h"

#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What hproute's flags say of a table that it is to choose.
struct PlanFlags {
  std::string solver;                         ///< Caffe solver file, as it can be opened
  std::string hosts;                          ///< path of a hosts.prototxt, or names separated by commas
  std::optional<HostsConfig> described = {};  ///< hosts that described themselves; then `hosts` is not read
  std::vector<std::string> exclude = {};      ///< hosts to leave out
  std::string profile;                        ///< path; empty: none
  std::string sample;                         ///< "C,H,W"; empty: of the database
  std::string solver_in_table;                ///< as the table is to name it
  InputOptions inputs;                        ///< of the data that is read for that shape
  bool per_replica = false, tls = false;
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32, wire_precision = RoutingTableConfig::FP32;
  std::string job;
  int port = 29500;
  int take = 1;  ///< which of the best tables, by speed
};

/// Times the layers of the solver's net on this host (ProfileNet).
/// @param flags solver, sample, inputs and, for the host's name, hosts. Errors as ProfileNet's and PlanTable's.
StatusOr<ProfileConfig> ProfileSolver(const PlanFlags& flags);

/// A table that was chosen, and why.
struct PlannedTable {
  RoutingTableConfig config;
  std::string reasons;  ///< lines for a terminal
};

/// Chooses a table for the job (ChoosePlan), and checks what its nodes hold as hproute --check does, one of each kind:
/// a table that does not fit after all is passed over for the next best. Hosts that are only named are taken to be like
/// this one, with links of 1 Gbit/s.
/// @return kInvalidArgument: a fault of solver, net, hosts or profile, or no table fits; kNotFound: a file is not
/// there, or a database without which the shape of a sample is not known.
StatusOr<PlannedTable> PlanTable(const PlanFlags& flags);

}  // namespace hp
