#pragma once

#include "base/job_environment.h"
#include "hp/status.h"
#include "node/make_transport.h"
#include "node/node.h"
#include "scheduler/plan/routing_table.h"
#include "transport/inproc/inproc_network.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// The node of the table that this process is, and its transport: not started, but its port is taken already, so that
/// no other process takes the same node.
struct OwnNode {
  Rank rank = 0;
  std::unique_ptr<Transport> transport;  ///< for NodeOptions::transport
};
/// Takes the first node of `role` on this host whose port is free, or the one named `node_name` (FindOwnNodes,
/// TakeOwnNode), and makes the transport that the table names (MakeNodeTransport).
/// @param role "conv", "fc" or "ps"; may be empty with `node_name`. @param node_name empty: chosen by role.
/// A name of this host that is not known yet is tried again as long as the node would wait for the others.
/// @param host what the process says of its host.
/// @return kInvalidArgument, kNotFound: no entry of the table fits; kFailedPrecondition: the ports of all that fit are
/// taken, or there is no RDMA device where the table wants one.
StatusOr<OwnNode> TakeOwnNodeOverNetwork(const RoutingTable& table, const std::string& role,
                                         const std::string& node_name, const HostSettings& host = {});

/// Takes the node that a scheduler's task is (FindTaskNode), and says so in the log.
/// @return also the error of its port, or of an address that is not this host's.
StatusOr<OwnNode> TakeTaskNodeOverNetwork(const RoutingTable& table, const JobEnvironment& job,
                                          const HostSettings& host = {});

/// Takes the node that a scheduler's task is, or else the one named `node_name`, with any free port instead of its own,
/// and waits until all nodes have told each other theirs (SharePorts), as long as it would wait for their connections.
/// @param folder of SharePorts. @param[in,out] table gets the ports.
/// @return also kInvalidArgument: no node has this name.
StatusOr<OwnNode> TakeNodeOnFreePort(const JobEnvironment& job, const std::string& node_name, const HostSettings& host,
                                     const std::string& folder, RoutingTable* table);

/// The node that a rendezvous gave this process, and its transport. @param node its name. @param listener on its port.
/// Errors as MakeNodeTransport's.
StatusOr<OwnNode> TakeGivenNode(const RoutingTable& table, const std::string& node,
                                std::unique_ptr<TcpListener> listener, const HostSettings& host);

/// Runs every node of the table in this process, each on a thread "node RANK", over the in-process transport, and
/// blocks until all have ended.
/// @param options_for called once for each rank, in their order, before any node runs: everything but the transport.
/// @param network its world_size is overwritten.
/// @param on_start called with node 0 after all nodes were opened and before any runs; may be null. The node lives
/// until this returns.
/// @return ok, or one failure: the first in the order of ranks that is neither kUnavailable nor kFailedPrecondition,
/// because a node that lost another one, or is told why it can't start, only follows it; if all are, the first of the
/// latter, then of the former. If a node can't be opened, its error, and none runs.
Status RunAllNodes(const RoutingTable& table, const std::function<NodeOptions(Rank)>& options_for,
                   const InprocOptions& network = {}, const std::function<void(Node*)>& on_start = nullptr);

/// Runs nodes 0 to count - 1 of one job in this process over transports of the caller's choice; as RunAllNodes.
/// @param options_for with the transport. @param on_start called with the first node when all are open, and with null
/// before they are destroyed.
Status RunNodes(int count, const std::function<NodeOptions(Rank)>& options_for,
                const std::function<void(Node*)>& on_start = nullptr);

}  // namespace hp
