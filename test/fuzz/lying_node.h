#pragma once

#include "engine/clock_end.h"
#include "input/label_store.h"
#include "node/inbox.h"
#include "report/reporter.h"
#include "scheduler/control/boundary_requests.h"
#include "scheduler/pipeline/pipeline.h"
#include "snapshot/pull_server.h"
#include "test/fuzz/fuzz_job.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace hp::fuzz {

/// Carries nothing: keeps what the node posts, for the fuzzer to answer.
class FuzzTransport : public Transport {
 public:
  struct Open {
    Rank peer = 0;
    PlaceTag tag;
  };
  struct Granted {
    Open open;
    size_t bytes = 0;
  };

  Status Start(TransportHandler*, HandshakePolicy*) override { return OkStatus(); }
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte>) override { return InternalError("unused"); }
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte>) override { return Post(peer, tag, &grants); }
  /// A node that was lied to may write only what was granted, once.
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    const auto found = granted.find(grant.index);
    Expect(found != granted.end() && found->second.open.peer == peer && found->second.open.tag == tag);
    Expect(found->second.bytes == source.size());
    granted.erase(found);
    return Post(peer, tag, &writes);
  }
  Status CancelGrant(Rank, RemoteGrant) override { return OkStatus(); }
  Status Send(Rank peer, uint32_t, std::span<const std::byte>) override {
    return closed.contains(peer) ? Unavailable("closed") : OkStatus();
  }
  int64_t LastHeardNs(Rank) const override { return 0; }
  int64_t LastSentNs(Rank) const override { return 0; }
  void Shutdown(Rank) override {}
  void Break(Rank peer, const Status&) override { breaking.insert(peer); }
  void Defer(std::function<void()> event) override { deferred.push_back(std::move(event)); }
  void Stop() override {}

  std::vector<Open> grants, writes;     // ours that are open, and ours under way
  std::map<uint32_t, Granted> granted;  // to us, by index
  std::set<Rank> breaking, closed;
  std::deque<std::function<void()>> deferred;

 private:
  Status Post(Rank peer, const PlaceTag& tag, std::vector<Open>* open) {
    if (closed.contains(peer)) return Unavailable("closed");
    open->push_back({peer, tag});
    return OkStatus();
  }
};

/// One node of a small job with all parts that peers reach: the real ones, but for ClockEnd, whose reports and verdicts
/// go to BoundaryRequests and Pipeline without a model (lying_node.cc). Its methods are what may happen to a node.
class VictimNode : private PipelineHost {
 public:
  VictimNode(const RoutingTable& table, const JobPlan& job, Rank self);

  // --- Events of the transport, as Node hands them on
  void Message(Rank peer, uint32_t type, const std::string& bytes);
  void Granted(Rank peer, const PlaceTag& tag, size_t bytes);
  /// @param index into transport.grants and transport.writes.
  void EndGrant(size_t index, const Status& status);
  void EndWrite(size_t index, const Status& status);
  void ConnectClient(Rank client);
  void Close(Rank peer);
  /// Deferred events run, and connections close that were broken.
  void Settle();

  // --- What the node does
  void Assemble();
  /// Carries out the next task, if one is ready.
  void RunTask();
  /// The exchange of gradients that was begun first is done; on a parameter server: the gradients of the next update
  /// of a group are here, as early as a replica may send them.
  /// @param choice of the group, on a server.
  void FinishExchange(size_t choice);
  /// The values that were asked for first are here.
  void FinishValues();

  int64_t clocks_judged() { return requests_.clocks_judged(); }
  int64_t clocks_reported() { return requests_.clocks_reported(); }
  /// Of grants for gradients: a place that this node writes, and its size. Empty: it exchanges nothing.
  const std::vector<ExchangePlaces>& exchange_places() const { return exchange_places_; }
  bool reachable(Rank peer) const { return !transport.closed.contains(peer) && !transport.breaking.contains(peer); }

  FuzzTransport transport;

 private:
  struct Exchange {
    int64_t clock = 0;
    int stage = 0, group = 0;
  };

  std::span<std::byte> Place(int solver, MsgId id, int port) override;
  bool InputsReady(MsgId id, int segment) override;
  void Freed(int, MsgId) override {}
  void BeginExchanges(const Task& task);
  bool server() const;

  const JobPlan& job_;
  const Rank self_;
  const PipelinePlan plan_;
  Gate gate_;
  FailureDetector detector_;
  NodeRendezvous rendezvous_;
  PullServer pulls_;
  LabelStore labels_;
  LearningRates rates_;
  Reporter reporter_;
  BoundaryRequests requests_;
  Pipeline pipeline_;
  std::unique_ptr<ClockEnd> clock_end_;
  Inbox inbox_;
  bool assembled_ = false;
  uint32_t next_grant_ = 0;
  std::deque<Exchange> exchanges_, values_;  // that were begun, and values that were asked for
  std::vector<ExchangePlaces> exchange_places_;
  std::vector<int64_t> served_, updated_;  // on a server, by group: clocks whose gradients are here, and updates
};

}  // namespace hp::fuzz
