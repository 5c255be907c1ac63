#include "commands/own_node.h"

#include "base/format.h"
#include "base/host.h"

namespace hp {
namespace {

std::string Entries(const RoutingTable& table, const std::string& role) {
  std::string entries;
  for (const NodeInfo& node : table.nodes()) {
    if (!role.empty() && node.role != role) continue;
    entries += (entries.empty() ? "" : ", ") + node.name + " on " + node.address();
  }
  return entries;
}

StatusOr<std::vector<Rank>> NamedNode(const RoutingTable& table, const std::string& role, const std::string& name) {
  HP_ASSIGN_OR_RETURN(const Rank rank, table.FindNode(name));
  const NodeInfo& node = table.node(rank);
  if (!role.empty() && node.role != role) {
    return InvalidArgument("%s: node \"%s\" has the role %s; --role says %s", table.path().c_str(), name.c_str(),
                           node.role.c_str(), role.c_str());
  }
  return std::vector<Rank>{rank};
}

}  // namespace

StatusOr<std::vector<Rank>> FindOwnNodes(const RoutingTable& table, const std::string& role,
                                         const std::string& node_name,
                                         const std::function<bool(const std::string&)>& is_this_host) {
  if (!role.empty() && role != "conv" && role != "fc" && role != "ps") {
    return InvalidArgument("--role is \"%s\"; expected conv, fc or ps", role.c_str());
  }
  if (!node_name.empty()) return NamedNode(table, role, node_name);
  if (role.empty())
    return InvalidArgument(
        "neither --role nor --node is given; expected --role=conv, --role=fc, --role=ps or "
        "--node=NAME");
  std::vector<Rank> own;
  for (const NodeInfo& node : table.nodes()) {
    if (node.role == role && (is_this_host ? is_this_host(node.host) : IsThisHost(node.host))) own.push_back(node.rank);
  }
  if (!own.empty()) return own;
  const std::string entries = Entries(table, role);
  if (entries.empty()) {
    return NotFound("%s: there is no %s node; the table has %s", table.path().c_str(), role.c_str(),
                    Entries(table, "").c_str());
  }
  std::string addresses;
  for (const std::string& address : OwnAddresses()) addresses += (addresses.empty() ? "" : ", ") + address;
  return NotFound(
      "%s: no %s node is on this host, which has the addresses %s; the table has %s (--node=NAME selects "
      "one anyway)",
      table.path().c_str(), role.c_str(), addresses.c_str(), entries.c_str());
}

StatusOr<Rank> FindTaskNode(const RoutingTable& table, const JobEnvironment& job) {
  if (job.tasks > 0 && job.tasks != table.size()) {
    return InvalidArgument(
        "%s: the table has %d node(s), and the job %d task(s) (%s); expected a task for each node: start as many, or "
        "write a table for these (hproute --hosts)",
        table.path().c_str(), table.size(), job.tasks, job.tasks_from.c_str());
  }
  if (job.task < table.size()) return job.task;
  return InvalidArgument(
      "%s: the table has %d node(s), and this is task %d, counted from 0 (%s); expected a task for "
      "each node",
      table.path().c_str(), table.size(), job.task, job.task_from.c_str());
}

StatusOr<Rank> TakeOwnNode(const RoutingTable& table, const std::vector<Rank>& candidates, const std::string& program,
                           const std::function<Status(const NodeInfo&)>& listen,
                           const std::function<std::optional<PortHolder>(int)>& find_holder) {
  std::string taken;
  for (Rank rank : candidates) {
    const NodeInfo& node = table.node(rank);
    const Status status = listen(node);
    if (status.ok()) return rank;
    const std::optional<PortHolder> holder = find_holder ? find_holder(node.port) : FindPortHolder(node.port);
    const std::string reason = holder ? "held by " + holder->ToString() : status.message();
    taken += Format("\n  node \"%s\", port %d: %s", node.name.c_str(), node.port, reason.c_str());
    if (!holder || holder->program == program) continue;
    return FailedPrecondition("%s: port %d of node \"%s\" is held by %s; expected it to be free or held by %s",
                              table.path().c_str(), node.port, node.name.c_str(), holder->ToString().c_str(),
                              program.c_str());
  }
  return FailedPrecondition(
      "%s: all nodes of this host are already running or their ports are taken:%s\nend these processes, or use other "
      "ports (hproute --port=P; free ones: hpnode --port_folder, hplaunch --free_ports)",
      table.path().c_str(), taken.c_str());
}

}  // namespace hp
