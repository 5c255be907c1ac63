#pragma once

#include "base/job_environment.h"
#include "base/port_holder.h"
#include "hp/status.h"
#include "scheduler/plan/routing_table.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// The entries of the table that a process on this host may be, in the order of the table: those of `role` whose host
/// means this host; with `node_name`, that entry alone, whatever its host. May ask a name server.
/// @param role "conv", "fc" or "ps"; may be empty with `node_name`.
/// @param is_this_host for tests; null: hp::IsThisHost.
/// @return at least one rank. kInvalidArgument: role and name are empty, unknown or contradict each other; kNotFound:
/// no entry fits. The message names the entries that there are.
StatusOr<std::vector<Rank>> FindOwnNodes(const RoutingTable& table, const std::string& role,
                                         const std::string& node_name,
                                         const std::function<bool(const std::string& host)>& is_this_host = nullptr);

/// The entry of the table that a task of a scheduler's job is: the one with its index.
/// @param job is_task(). @return kInvalidArgument: the table has another number of nodes than the job has tasks; the
/// message has both.
StatusOr<Rank> FindTaskNode(const RoutingTable& table, const JobEnvironment& job);

/// Takes the first candidate on whose port `listen` succeeds. A port that another hpnode holds is passed over (it is a
/// node of this host that was started before); one that something else holds is an error, since the job would lack that
/// node.
/// @param candidates of FindOwnNodes. @param program name of this program, as PortHolder::program has it.
/// @param listen tries to listen on the node's port, and keeps it if it can.
/// @param find_holder for tests; null: hp::FindPortHolder.
/// @return its rank. kFailedPrecondition: none is left, or another program holds a port; names entries and holders.
StatusOr<Rank> TakeOwnNode(const RoutingTable& table, const std::vector<Rank>& candidates, const std::string& program,
                           const std::function<Status(const NodeInfo& node)>& listen,
                           const std::function<std::optional<PortHolder>(int port)>& find_holder = nullptr);

}  // namespace hp
