#pragma once

#include "base/format.h"
#include "scheduler/control/membership.h"

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Nodes with links between each other, in virtual time: what Membership sees of processes and TCP. Messages of a link
/// arrive in order, after a random delay. A node that leaves ends its process, as hpnode does.
class MemberCluster {
 public:
  struct Options {
    int nodes = 3;
    unsigned seed = 1;
    int min_delay_ms = 0, max_delay_ms = 5;
    /// A process that ends while something is on its way to it takes down what it sent and its peer has not read.
    bool end_drops_messages = false;
  };
  struct End {
    Membership::State state = Membership::State::kRunning;
    Loss loss;
    std::string line;
    int64_t at_ms = -1;
  };

  explicit MemberCluster(const Options& options) : options_(options), random_(options.seed) {
    for (int i = 0; i < options.nodes; ++i) names_.push_back(Format("n%d", i));
    for (int i = 0; i < options.nodes; ++i) nodes_.push_back(std::make_unique<Node>(this, i));
    for (auto& node : nodes_) {
      for (int peer = 0; peer < options.nodes; ++peer) {
        if (peer != node->rank) node->membership.OnConnected(peer);
      }
    }
  }

  Membership& at(Rank rank) { return nodes_[rank]->membership; }
  int64_t now_ms() const { return clock_.NowNs() / kNsPerMs; }
  /// kill -9.
  void Kill(Rank rank) { EndProcess(*nodes_[rank]); }
  /// SIGSTOP and SIGCONT.
  void Stop(Rank rank) { nodes_[rank]->stopped = true; }
  void Continue(Rank rank) { nodes_[rank]->stopped = false; }
  /// Nothing passes between the two any more, and nobody is told.
  void Cut(Rank a, Rank b) { cut_.insert({std::min(a, b), std::max(a, b)}); }
  void CutOff(Rank rank) {
    for (int peer = 0; peer < options_.nodes; ++peer) {
      if (peer != rank) Cut(rank, peer);
    }
  }

  void RunFor(int64_t ms) {
    for (int64_t end = now_ms() + ms; now_ms() < end;) {
      clock_.Advance(kNsPerMs);
      for (auto& [link, queue] : links_) Deliver(link.second, &queue);
      for (auto& node : nodes_) Step(*node);
    }
  }
  bool alive(Rank rank) const { return nodes_[rank]->alive; }
  /// How the node's process ended by itself.
  const End& end(Rank rank) const { return nodes_[rank]->end; }

 private:
  enum Kind { kMessage, kEndOfSending, kEndOfProcess };
  struct Packet {
    Kind kind;
    Rank from;
    int64_t at_ms;
    MemberMessage type;
    std::string payload;
  };
  struct Node : MembershipOutput {
    Node(MemberCluster* c, Rank r)
        : cluster(c),
          rank(r),
          next_tick_ms(c->random_() % 50),
          sent_end(c->names_.size()),
          got_end(c->names_.size()),
          closed(c->names_.size()),
          membership({.self = r, .names = c->names_}, &c->clock_, this) {}
    void SendToAll(MemberMessage type, const std::string& payload) override {
      for (Rank peer = 0; peer < static_cast<int>(closed.size()); ++peer) {
        if (peer != rank && !closed[peer] && !sent_end[peer]) cluster->Send(rank, peer, kMessage, type, payload);
      }
    }
    void SendHeartbeat(Rank peer) override {
      if (!closed[peer] && !sent_end[peer]) cluster->Send(rank, peer, kMessage, MemberMessage::kHeartbeat, "");
    }
    int64_t LastSentNs(Rank) override { return 0; }
    void ShutdownAll() override {
      for (Rank peer = 0; peer < static_cast<int>(closed.size()); ++peer) {
        if (peer == rank || closed[peer] || sent_end[peer]) continue;
        sent_end[peer] = true;
        cluster->Send(rank, peer, kEndOfSending, {}, "");
      }
    }

    MemberCluster* const cluster;
    const Rank rank;
    int64_t next_tick_ms;
    std::vector<bool> sent_end, got_end, closed;
    bool alive = true, stopped = false;
    End end;
    Membership membership;
  };

  bool IsCut(Rank a, Rank b) const { return cut_.count({std::min(a, b), std::max(a, b)}) > 0; }

  void Send(Rank from, Rank to, Kind kind, MemberMessage type, const std::string& payload) {
    if (IsCut(from, to)) return;
    std::deque<Packet>& queue = links_[{from, to}];
    const int span = options_.max_delay_ms - options_.min_delay_ms + 1;
    int64_t at = now_ms() + options_.min_delay_ms + static_cast<int>(random_() % span);
    if (!queue.empty()) at = std::max(at, queue.back().at_ms);
    queue.push_back({kind, from, at, type, payload});
  }

  void Deliver(Rank to, std::deque<Packet>* queue) {
    Node& node = *nodes_[to];
    while (!queue->empty() && queue->front().at_ms <= now_ms() && node.alive && !node.stopped) {
      const Packet packet = queue->front();
      queue->pop_front();
      if (IsCut(packet.from, to) || node.closed[packet.from]) continue;
      if (packet.kind == kMessage) {
        node.membership.OnHeard(packet.from, clock_.NowNs());
        node.membership.OnMessage(packet.from, packet.type, packet.payload);
      } else if (packet.kind == kEndOfProcess) {
        node.closed[packet.from] = true;
        node.membership.OnClosed(packet.from, Unavailable("end of stream"));
      } else {
        node.got_end[packet.from] = true;
      }
    }
  }

  void Step(Node& node) {
    if (!node.alive || node.stopped) return;
    for (Rank peer = 0; peer < options_.nodes; ++peer) {
      if (!node.sent_end[peer] || !node.got_end[peer] || node.closed[peer]) continue;
      node.closed[peer] = true;
      node.membership.OnClosed(peer, Cancelled("ended in order"));
    }
    if (now_ms() >= node.next_tick_ms) {
      node.next_tick_ms = now_ms() + 50;
      node.membership.Tick(true);
    }
    const Membership::State state = node.membership.state();
    if (state != Membership::State::kLost && state != Membership::State::kDone) return;
    node.end = {state, node.membership.loss(), node.membership.Describe(), now_ms()};
    EndProcess(node);
  }

  void EndProcess(Node& node) {
    node.alive = false;
    for (Rank peer = 0; peer < options_.nodes; ++peer) {
      if (peer == node.rank) continue;
      // Bytes that reach a closed socket are answered by a reset, which discards what its peer has not read.
      if (options_.end_drops_messages && !links_[{peer, node.rank}].empty()) links_[{node.rank, peer}].clear();
      Send(node.rank, peer, kEndOfProcess, {}, "");
    }
  }

  const Options options_;
  std::mt19937 random_;
  FakeClock clock_;
  std::vector<std::string> names_;
  std::map<std::pair<Rank, Rank>, std::deque<Packet>> links_;  // by (from, to)
  std::set<std::pair<Rank, Rank>> cut_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace hp
