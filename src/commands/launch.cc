#include "commands/launch.h"

#include "base/thread.h"
#include "commands/own_node.h"
#include "commands/share_ports.h"

#include "glog/logging.h"

#include <utility>

namespace hp {
namespace {

constexpr int kLeastThreads = 4;  // of a node: its own, executor, failure detector, transport

StatusOr<OwnNode> TakeAmong(const RoutingTable& table, const std::vector<Rank>& candidates, const HostSettings& host) {
  std::unique_ptr<TcpListener> listener;
  auto listen = [&](const NodeInfo& node) -> Status {
    HP_ASSIGN_OR_RETURN(listener, ListenAsNode(table, node.rank, host));
    return OkStatus();
  };
  OwnNode own;
  HP_ASSIGN_OR_RETURN(own.rank, TakeOwnNode(table, candidates, "hpnode", listen));
  HP_ASSIGN_OR_RETURN(own.transport, MakeNodeTransport(table, own.rank, host, std::move(listener)));
  return own;
}

StatusOr<Rank> TaskNode(const RoutingTable& table, const JobEnvironment& job) {
  HP_ASSIGN_OR_RETURN(const Rank rank, FindTaskNode(table, job));
  LOG(INFO) << job.Describe() << ": node " << table.node(rank).name << " of " << table.path();
  return rank;
}

/// How likely a node ended with this because another one did: it lost that one, or was told why it can't start.
int FollowsOthers(StatusCode code) {
  return code == StatusCode::kUnavailable ? 2 : code == StatusCode::kFailedPrecondition ? 1 : 0;
}

}  // namespace

StatusOr<OwnNode> TakeTaskNodeOverNetwork(const RoutingTable& table, const JobEnvironment& job,
                                          const HostSettings& host) {
  HP_ASSIGN_OR_RETURN(const Rank rank, TaskNode(table, job));
  StatusOr<OwnNode> own = TakeAmong(table, {rank}, host);
  if (!own.ok()) return own.status().Prepend(job.Describe());
  return own;
}

StatusOr<OwnNode> TakeOwnNodeOverNetwork(const RoutingTable& table, const std::string& role,
                                         const std::string& node_name, const HostSettings& host) {
  HP_ASSIGN_OR_RETURN(const std::vector<Rank> candidates, FindOwnNodes(table, role, node_name));
  return TakeAmong(table, candidates, host);
}

StatusOr<OwnNode> TakeNodeOnFreePort(const JobEnvironment& job, const std::string& node_name, const HostSettings& host,
                                     const std::string& folder, RoutingTable* table) {
  HP_ASSIGN_OR_RETURN(const Rank rank, job.is_task() ? TaskNode(*table, job) : table->FindNode(node_name));
  const std::string name = table->node(rank).name;
  HP_ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener, ListenAsNode(*table, rank, host, 0));
  const int64_t wait_ms = ConnectOptionsFor(*table, rank, host).connect_deadline_ms;
  HP_ASSIGN_OR_RETURN(*table, SharePorts(*table, rank, listener->port(), folder, wait_ms));
  LOG(INFO) << "node " << name << " listens on port " << listener->port() << ": " << folder
            << "/table.prototxt has those of all nodes";
  return TakeGivenNode(*table, name, std::move(listener), host);
}

StatusOr<OwnNode> TakeGivenNode(const RoutingTable& table, const std::string& node,
                                std::unique_ptr<TcpListener> listener, const HostSettings& host) {
  OwnNode own;
  HP_ASSIGN_OR_RETURN(own.rank, table.FindNode(node));
  HP_ASSIGN_OR_RETURN(own.transport, MakeNodeTransport(table, own.rank, host, std::move(listener)));
  return own;
}

Status RunAllNodes(const RoutingTable& table, const std::function<NodeOptions(Rank)>& options_for,
                   const InprocOptions& network_options, const std::function<void(Node*)>& on_start) {
  InprocOptions complete = network_options;
  complete.world_size = table.size();
  InprocNetwork network(complete);
  return RunNodes(
      table.size(),
      [&](Rank rank) {
        NodeOptions options = options_for(rank);
        options.transport = network.Create(rank);
        options.one_process = true;
        return options;
      },
      on_start);
}

Status RunNodes(int count, const std::function<NodeOptions(Rank)>& options_for,
                const std::function<void(Node*)>& on_start) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (Rank rank = 0; rank < count; ++rank) nodes.push_back(std::make_unique<Node>(options_for(rank)));
  // One by one: what is wrong with the job's files is said once, not by each node.
  for (const auto& node : nodes) HP_RETURN_IF_ERROR(node->Open());
  if (on_start) on_start(nodes[0].get());
  // Nodes that have started wait for those that have not: all or none.
  if (const Status status = TryThreads(kLeastThreads * count); !status.ok()) {
    LOG(ERROR) << status.message();
    if (on_start) on_start(nullptr);
    return status;
  }
  std::vector<Status> results(nodes.size());
  {
    std::vector<Thread> threads;
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      threads.emplace_back("node " + std::to_string(rank), [&, rank] { results[rank] = nodes[rank]->Run(); });
    }
  }
  for (const auto& node : nodes) node->Stop();
  if (on_start) on_start(nullptr);
  Status first;
  for (const Status& status : results) {
    if (status.ok()) continue;
    if (first.ok() || FollowsOthers(status.code()) < FollowsOthers(first.code())) first = status;
  }
  return first;
}

}  // namespace hp
