#include "node/launch.h"

#include "node/own_node.h"
#include "transport/connect/tcp_listener.h"

#include <signal.h>

#include <atomic>

namespace hp {
namespace {

std::atomic<Node*> signalled{nullptr};
std::atomic<int64_t> interrupted_ns{0};  // the first SIGINT

// A launcher and a terminal may both deliver one SIGINT, and schedulers send SIGTERM twice: only a second SIGINT that
// comes a while after the first means that the user does not want to wait for the boundary.
void OnSignal(int signal) {
  Node* node = signalled;
  const int64_t now_ns = Clock::Real()->NowNs();
  int64_t first_ns = 0;
  const bool again =
      signal == SIGINT && !interrupted_ns.compare_exchange_strong(first_ns, now_ns) && now_ns - first_ns > kNsPerSecond;
  if (node == nullptr) return;       // the process is about to end
  if (!node->training() || again) {  // no request would be carried out
    ::signal(signal, SIG_DFL);
    raise(signal);
  } else if (signal == SIGHUP) {
    node->RequestSnapshot();
  } else {
    node->RequestStop();
  }
}

}  // namespace

StatusOr<OwnNode> TakeOwnNodeOverNetwork(const RoutingTable& table, const std::string& role,
                                         const std::string& node_name, const HostDevices& devices) {
  HP_ASSIGN_OR_RETURN(const std::vector<Rank> candidates, FindOwnNodes(table, role, node_name));
  std::unique_ptr<TcpListener> listener;
  auto listen = [&listener](const NodeInfo& node) -> Status {
    HP_ASSIGN_OR_RETURN(listener, TcpListener::Bind(node.host, node.port));
    return OkStatus();
  };
  OwnNode own;
  HP_ASSIGN_OR_RETURN(own.rank, TakeOwnNode(table, candidates, "hpnode", listen));
  HP_ASSIGN_OR_RETURN(own.transport, MakeNodeTransport(table, own.rank, devices, std::move(listener)));
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
    if (first.ok() || (first.code() == StatusCode::kUnavailable && status.code() != StatusCode::kUnavailable)) {
      first = status;
    }
  }
  return first;
}

void HandleSignals(Node* node) {
  Clock::Real();  // makes what the handler may not make
  signalled = node;
  if (node == nullptr) return;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    struct sigaction before = {};
    const bool ignored = sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (ignored && signal == SIGHUP) continue;  // nohup
    sigaction(signal, &action, nullptr);
  }
  // A peer that closes its end shows as an error of the write.
  ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace hp
