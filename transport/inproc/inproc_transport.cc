#include "transport/inproc/inproc_transport.h"

#include "base/out_of_memory.h"

#include <glog/logging.h>

#include <utility>

namespace hp {
InprocTransport::InprocTransport(std::shared_ptr<InprocHub> hub, Rank rank, bool client)
    : hub_(std::move(hub)), self_{rank, client, std::make_shared<Mailbox>(), this} {}

Status InprocTransport::Start(TransportHandler* handler, HandshakePolicy* policy) {
  handler_ = handler;
  policy_ = policy;
  const InprocOptions& options = hub_->options;
  if (!self_.client && options.world_size > 0) {
    self_.mailbox->Post(Clock::Real()->NowNs() + options.connect_deadline_ms * kNsPerMs, false,
                        [this] { ReportMissing(); });
  }
  MutexLock lock(&hub_->mutex);
  if (hub_->nodes.count(self_.rank) && !self_.client) {
    return FailedPrecondition("node %d runs on this network already", self_.rank);
  }
  // As over TCP, the higher rank connects to the lower; clients connect to their node.
  const auto dial = [](const InprocAddress& from, const InprocAddress& to) {
    from.mailbox->Post(0, false, [dialer = from.transport, to] { dialer->Dial(to); });
  };
  if (self_.client) {
    const auto server = hub_->nodes.find(self_.rank);
    if (server != hub_->nodes.end()) dial(self_, server->second);
    hub_->clients.push_back(self_);
  } else {
    for (const auto& [rank, node] : hub_->nodes) rank < self_.rank ? dial(self_, node) : dial(node, self_);
    for (const InprocAddress& client : hub_->clients) {
      if (client.rank == self_.rank) dial(client, self_);
    }
    hub_->nodes[self_.rank] = self_;
  }
  progress_ = Thread("inproc-" + std::to_string(self_.rank), [this] { Run(); });
  return OkStatus();
}

void InprocTransport::Run() {
  bool stopped = false;
  while (!stopped) {
    const Status status = OrOutOfMemory("moving data between nodes", [this, &stopped] {
      while (Mailbox::Event event = self_.mailbox->Next()) event();
      stopped = true;
      return OkStatus();
    });
    if (!status.ok()) handler_->OnOutOfMemory(status);
  }
}

void InprocTransport::Dial(const InprocAddress& to) {
  DropClosed();
  auto link = std::make_shared<InprocLink>(self_.rank, self_.mailbox, to.rank, to.mailbox, hub_->options);
  alive_[link] = link->side(0);
  link->side(1)->Deliver(InprocEndpoint::Lane::kControl, [to, from = self_, link, hello = policy_->Hello()] {
    to.transport->OnHello(from, link, hello);
  });
}

StatusOr<Rank> InprocTransport::Judge(const std::string& hello) {
  if (hello.size() > kMaxHelloBytes) return InvalidArgument("a hello of %zu bytes is too long", hello.size());
  HP_ASSIGN_OR_RETURN(const Rank rank, policy_->Accept(hello));
  if (HasOpenLink(rank)) return FailedPrecondition("node %d is connected already", rank);
  return rank;
}

void InprocTransport::OnHello(const InprocAddress& from, const std::shared_ptr<InprocLink>& link,
                              const std::string& hello) {
  DropClosed();
  InprocEndpoint* connector = link->side(0);
  const StatusOr<Rank> rank = Judge(hello);
  if (!rank.ok()) {
    LOG(WARNING) << "refused a connection from inproc node " << from.rank << ": " << rank.status().message();
    connector->Deliver(InprocEndpoint::Lane::kControl, [from, link, peer = self_.rank, reason = rank.status()] {
      from.transport->OnRefused(peer, link, reason);
    });
    policy_->OnRefusalSent(hello);
    return;
  }
  alive_[link] = link->side(1);
  connector->Deliver(InprocEndpoint::Lane::kControl,
                     [from, link, self = self_, answer = policy_->Hello(), granted_rank = *rank] {
                       from.transport->OnAnswer(self, link, answer, granted_rank);
                     });
}

void InprocTransport::OnAnswer(const InprocAddress& from, const std::shared_ptr<InprocLink>& link,
                               const std::string& hello, Rank granted_rank) {
  InprocEndpoint* acceptor = link->side(1);
  StatusOr<Rank> rank = Judge(hello);
  if (rank.ok() && *rank != from.rank) {
    rank = FailedPrecondition("node %d says that it is node %d", from.rank, *rank);
  }
  if (!rank.ok()) {
    LOG(WARNING) << "refused inproc node " << from.rank << ": " << rank.status().message();
    acceptor->Deliver(InprocEndpoint::Lane::kControl, [from, link, granted_rank, reason = rank.status()] {
      from.transport->OnRefused(granted_rank, link, reason);
    });
    alive_.erase(link);
    if (settled_.insert(from.rank).second) handler_->OnConnectFailed(from.rank, rank.status());
    return;
  }
  // Ahead of all that our handler posts: the same lane.
  acceptor->Deliver(InprocEndpoint::Lane::kControl,
                    [from, link, granted_rank] { from.transport->Connect(granted_rank, link, 1); });
  Connect(from.rank, link, 0);
}

void InprocTransport::OnRefused(Rank peer, const std::shared_ptr<InprocLink>& link, const Status& reason) {
  alive_.erase(link);
  settled_.insert(peer);
  policy_->OnRefused(peer, reason);
}

void InprocTransport::Connect(Rank peer, const std::shared_ptr<InprocLink>& link, int side) {
  if (HasOpenLink(peer)) {
    link->Break(Unavailable("node %d is connected already", peer));
    return;
  }
  AddLink(peer, {link, link->side(side)});
  settled_.insert(peer);
  link->side(side)->Open(peer, handler_);
}

void InprocTransport::DropClosed() {
  std::erase_if(alive_, [](const auto& entry) { return entry.second->closed(); });
}

void InprocTransport::ReportMissing() {
  for (Rank rank = 0; rank < hub_->options.world_size; ++rank) {
    if (rank == self_.rank || !settled_.insert(rank).second) continue;
    handler_->OnConnectFailed(
        rank, DeadlineExceeded("node %d did not appear within %g s", rank, hub_->options.connect_deadline_ms / 1000.0));
  }
}

void InprocTransport::Cut(Rank peer) {
  for (const auto& [link, endpoint] : alive_) {
    if (endpoint->open() && endpoint->peer() == peer) link->Break(Unavailable("the connection was cut"));
  }
}

void InprocTransport::Stop() {
  {
    MutexLock lock(&hub_->mutex);
    const auto it = hub_->nodes.find(self_.rank);
    if (it != hub_->nodes.end() && it->second.transport == this) hub_->nodes.erase(it);
    std::erase_if(hub_->clients, [this](const InprocAddress& client) { return client.transport == this; });
  }
  self_.mailbox->Close();
  progress_.Join();
  // Posts that come after this find their endpoints closed.
  for (const auto& [link, endpoint] : alive_) {
    endpoint->Abandon();
    link->Break(Unavailable("node %d closed the connection without ending it", self_.rank));
  }
  alive_.clear();
}

}  // namespace hp
