#pragma once

#include "hp/status.h"
#include "node/make_transport.h"
#include "proto/survey.pb.h"
#include "scheduler/plan/routing_table.h"
#include "transport/connect/tcp_listener.h"

#include <memory>
#include <vector>

namespace hp {

/// The hosts of a table, each by the rank of its first node there, in the order of the table. Hosts that are written
/// differently are different ones.
std::vector<Rank> FirstNodesOfHosts(const RoutingTable& table);

/// Measures all pairs of the table's hosts over TCP, together with the processes that run this on the others. They meet
/// as nodes do, at the ports of FirstNodesOfHosts, with the job's token and TLS if it has them; the first host leads.
/// Pairs are measured in rounds, and no host takes part in two measurements at once.
/// @param own index of this host in FirstNodesOfHosts. @param listener on the port of its node.
/// @param settings as of a node: wait_s bounds the time until all hosts are there.
/// @return all hosts and pairs, the same on each host. kDeadlineExceeded: hosts did not appear (names all of them);
/// kUnavailable: one was lost, or is silent; kInvalidArgument, kFailedPrecondition: one has another table, or is no
/// `hpnode --doctor`. One failure ends the survey on all hosts, with the same words.
StatusOr<SurveyReport> SurveyHosts(const RoutingTable& table, int own, const HostSettings& settings,
                                   std::unique_ptr<TcpListener> listener);

}  // namespace hp
