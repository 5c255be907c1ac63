#pragma once

#include "hp/status.h"
#include "input/input.h"

#include <cstdint>
#include <string>

namespace hp {

/// What hproute's flags say of a table that is to be checked.
struct CheckFlags {
  std::string table;      ///< path
  std::string sample;     ///< as SampleShapesOf reads it; empty: of the databases
  int64_t memory_mb = 0;  ///< that each host has for its nodes; 0: what it has, as far as that is known
  InputOptions inputs;    ///< of the databases
};

/// What `hproute --check` found.
struct CheckedTable {
  std::string text;  ///< lines for a terminal: all faults, or what each node runs, holds and sends
  Status status;  ///< ok: it is valid; kInvalidArgument, kDataLoss: it has faults, or a node does not fit; kNotFound:
                  ///< the data is not here and CheckFlags::sample is empty, so shapes and sizes are not known
};

/// Checks a table with its solver, net and databases, or with CheckFlags::sample where those are not on this host.
/// @return kNotFound, kInvalidArgument: there is no such table, it is no table, or a flag is out of range.
StatusOr<CheckedTable> CheckTableFile(const CheckFlags& flags);

}  // namespace hp
