#pragma once

#include "hp/status.h"
#include "node/make_transport.h"
#include "scheduler/plan/routing_table.h"

#include <ostream>
#include <string>

namespace hp {

/// `hpnode --doctor --routing=TABLE`: measures all pairs of the table's hosts, together with the same command on each
/// of them, and writes what was found and what to do about it.
/// @param node_name a node of this host; empty: the host's addresses tell which one this is.
/// @param out_path where to write the hosts for the planner (hproute --hosts=FILE.prototxt); empty: nowhere.
/// @return ok if everything was measured, whatever it says; the errors of SurveyHosts; kNotFound: the table has no node
/// here; PendingFile's errors.
Status RunSurvey(const RoutingTable& table, const std::string& node_name, const HostSettings& settings,
                 const std::string& out_path, std::ostream* out);

}  // namespace hp
