#pragma once

#include "commands/plan_seats.h"
#include "hp/status.h"
#include "node/make_transport.h"
#include "scheduler/plan/routing_table.h"

#include "rendezvous/attendance.h"
#include "run_folder/shared_run_folder.h"

#include <memory>
#include <optional>
#include <string>

namespace hp {

/// hpnode's flags that say where its table comes from.
struct TableFlags {
  std::string routing, run_id, role, node;
  std::string device = "cpu";  ///< of a node that a rendezvous places
  int port = 0;                ///< that it listens on; 0: any free one
  std::string address;         ///< ADDRESS[:PORT] that others dial; empty: this host's own addresses
  SeatPlanFlags plan;          ///< how it would plan; its solver also stands for the table's
};

/// A table, and what a rendezvous says of this process.
struct FoundTable {
  std::optional<RoutingTable> table;  ///< none: the plan does not need this process, and `why` says so
  std::string why;
  RunStart start;                          ///< the rendezvous' run and incarnation; no run: the table is a file
  std::string node;                        ///< the node that it is; empty: as --role and --node say
  std::unique_ptr<TcpListener> listener;   ///< of that node; null: it takes its port itself
  std::unique_ptr<Attendance> attendance;  ///< null: the table is a file
};

/// Refuses the flags that a table has for itself where it is a file.
/// @return kInvalidArgument: one of them is given.
Status CheckFileFlags(const TableFlags& flags);

/// Gets the table of --routing: reads the file, or asks a rendezvous until it hands one out, at most
/// HostSettings::wait_s (300 s where that is 0). Blocks. README.md of src/rendezvous has the kinds.
/// @return kInvalidArgument, kFailedPrecondition: flags that do not go together, a table that can't be used, or the
/// rendezvous refuses this process; kDeadlineExceeded: there was no table in time.
StatusOr<FoundTable> FindTable(const TableFlags& flags, const HostSettings& host);

}  // namespace hp
