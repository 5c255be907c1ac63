#pragma once

#include "hp/status.h"
#include "node/make_transport.h"
#include "node/node.h"
#include "scheduler/plan/routing_table.h"
#include "transport/inproc/inproc_network.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// The node of the table that this process is, and its transport, which listens already.
struct OwnNode {
  Rank rank = 0;
  std::unique_ptr<Transport> transport;
};
/// Takes the first node of `role` on this host whose port is free, or the one named `node_name` (see TakeOwnNode).
StatusOr<OwnNode> TakeOwnNodeOverNetwork(const RoutingTable& table, const std::string& role,
                                         const std::string& node_name, const HostDevices& devices = {});

/// Runs every node of the table as threads of this process, over the in-process transport.
/// @param options_for everything but the transport. `on_start`: called with the first node before it runs.
/// @return ok, or the first failure in the order of ranks, that of a node that did not merely lose another one first.
Status RunAllNodes(const RoutingTable& table, const std::function<NodeOptions(Rank)>& options_for,
                   const InprocOptions& network = {}, const std::function<void(Node*)>& on_start = nullptr);

/// Runs nodes 0 to count - 1 as threads of this process, each with what `options_for` gives it, its transport included.
/// @return as RunAllNodes.
Status RunNodes(int count, const std::function<NodeOptions(Rank)>& options_for,
                const std::function<void(Node*)>& on_start = nullptr);

/// SIGINT and SIGTERM: stop with a snapshot, the second time at once; SIGHUP: a snapshot (as Caffe). Before training
/// begins each ends the process, as it does where nobody asks for it. For the process's one node, or its first.
void HandleSignals(Node* node);

}  // namespace hp
