#pragma once

#include "proto/planning.pb.h"
#include "proto/survey.pb.h"
#include "scheduler/plan/routing_table.h"
#include "transport/verbs/doctor.h"

#include <vector>

namespace hp {

/// What a survey says, a finding for each host and each pair, and one with advice for each thing that deserves a look:
/// MTUs, clocks, slow and lopsided connections, memory, disk. @param report complete.
std::vector<Finding> FindingsOf(const SurveyReport& report);

/// The surveyed hosts as the planner takes them (hproute --hosts=FILE.prototxt): cores, free memory, and the link as
/// the best of the host's connections shows it, the slower way of sending and receiving. GPUs are those of the table.
HostsConfig HostsOfSurvey(const SurveyReport& report, const RoutingTable& table);

}  // namespace hp
