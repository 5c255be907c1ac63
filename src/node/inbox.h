#pragma once

#include "base/rank.h"
#include "engine/clock_end.h"
#include "input/label_store.h"
#include "node/rendezvous.h"
#include "report/reporter.h"
#include "scheduler/control/boundary_requests.h"
#include "scheduler/control/client_desk.h"
#include "scheduler/control/failure_detector.h"
#include "scheduler/control/gate.h"
#include "scheduler/control/peer_rules.h"
#include "scheduler/pipeline/pipeline.h"
#include "snapshot/pull_server.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

namespace hp {

/// What peers send, on its way to the part of the node that it is for. PeerRules looks at all of it; what the node can
/// only take when it is assembled waits in the Gate in between. A peer that breaks a rule loses its connection, with
/// one line in the log, and what else it sent is dropped. Owned by the node. Progress thread, unless said otherwise.
class Inbox {
 public:
  /// All outlive the inbox.
  struct Early {
    const RoutingTable* table = nullptr;
    Rank self = 0;
    Transport* transport = nullptr;
    Gate* gate = nullptr;
    FailureDetector* failure_detector = nullptr;
    NodeRendezvous* rendezvous = nullptr;
    PullServer* pulls = nullptr;  ///< null: not the first node
    ClientDesk* desk = nullptr;   ///< likewise
  };
  /// The parts of an assembled node, which outlive the inbox.
  struct Assembled {
    const JobPlan* job = nullptr;
    int64_t start_clock = 0;  ///< the first iteration of this run
    BoundaryRequests* requests = nullptr;
    ClockEnd* clock_end = nullptr;
    LabelStore* labels = nullptr;
    Pipeline* pipeline = nullptr;
    Reporter* reporter = nullptr;  ///< null: another node prints
    std::vector<ExchangePlaces> exchanges = {};
    std::function<void(const SnapshotCopied&)> on_copied = {};  ///< called on the first node alone, as is the next
    std::function<void(Rank owner, const SnapshotPartWritten&)> on_part = {};
  };
  explicit Inbox(const Early& early) : early_(early), rules_(*early.table, early.self) {}

  /// Main thread, once, just before the Gate opens.
  void SetAssembled(Assembled parts);

  /// Hands a message to its part.
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes);
  /// Calls `deliver` for a grant that is in order: at once, or on the main thread when the Gate opens.
  void OnGranted(Rank peer, const PlaceTag& tag, size_t bytes, std::function<void()> deliver);
  /// From now on nodes that lack the snapshot may ask for their pieces; what they asked before is delivered. Main
  /// thread, once, ahead of SetAssembled. @param job must outlive the inbox.
  void StartGiving(const JobPlan& job, const std::set<Rank>& takers);
  /// A peer has cancelled a grant of ours, which no node of a job does.
  void OnCancelled(Rank peer);
  void OnClosed(Rank peer);

 private:
  void OnPieceAsked(Rank peer, const PlaceTag& tag, size_t bytes, std::function<void()> deliver);
  /// A message of a client whose type and size are in order.
  void TakeRequest(Rank client, uint32_t type, std::span<const std::byte> bytes);
  /// Breaks the peer's connection. Also the main thread, while the Gate opens.
  void Refuse(Rank peer, const Status& fault);
  /// A message whose type and size are in order. Also the main thread, while the Gate opens.
  void Take(Rank peer, uint32_t type, std::span<const std::byte> bytes);

  const Early early_;
  PeerRules rules_;
  Gate resume_gate_;  // holds grants for pieces of a snapshot back until StartGiving
  Assembled parts_;   // written before the Gate opens, read after
};

}  // namespace hp
