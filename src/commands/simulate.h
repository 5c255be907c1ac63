#pragma once

#include "hp/status.h"
#include "input/input.h"

#include <cstdint>
#include <string>

namespace hp {

class JobPlan;
struct Hosts;

/// What hproute's flags say of a table that is to be simulated.
struct SimulateFlags {
  std::string table;    ///< path
  std::string hosts;    ///< path of a hosts.prototxt; empty: the table's hosts, taken to be like this one
  std::string profile;  ///< path; empty: none but those that the hosts name
  std::string sample;   ///< "C,H,W"; empty: of the database
  std::string trace;    ///< file to write; empty: none
  InputOptions inputs;  ///< of the data that is read for that shape
};

/// Simulates some iterations of a job (Simulate). @return lines for a terminal; kInvalidArgument: a fault of the table
/// or of what it leads to, of hosts or profile; kNotFound: a file is not there, or a database without which the shape
/// of a sample is not known; an error of the trace's file.
StatusOr<std::string> SimulateTable(const SimulateFlags& flags);

/// Seconds of an iteration of a planned job, by a simulation of a few.
/// @param hosts with their profiles. @return kInvalidArgument: a node lies on none of them; Simulate's errors.
StatusOr<double> SimulatedSeconds(const JobPlan& plan, const Hosts& hosts);

}  // namespace hp
