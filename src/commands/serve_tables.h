#pragma once

#include "commands/plan_seats.h"
#include "hp/status.h"
#include "proto/rendezvous.pb.h"

#include <functional>
#include <string>

namespace hp {

/// hpserver's flags.
struct ServeFlags {
  SeatPlanFlags plan;
  std::string listen;      ///< HOST:PORT; port 0: any free one, which is logged
  std::string folder;      ///< where its tables and the run id lie
  std::string run_id;      ///< empty: the folder's, the scheduler's, or a random one
  std::string token_file;  ///< empty: no token, and loopback only
  std::function<void(const TableRecord&)> on_table = nullptr;  ///< as TableServerOptions::on_table
};

/// Serves the tables of one run (TableServer) until the process is ended: all that it knows lies in its folder.
/// @return kInvalidArgument, kNotFound, kFailedPrecondition: what is wrong with flags, files or folder.
Status ServeTables(const ServeFlags& flags);

}  // namespace hp
