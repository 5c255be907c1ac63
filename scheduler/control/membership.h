#pragma once

#include "base/clock.h"
#include "hp/status.h"
#include "transport/transport.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// The messages of the membership protocol.
enum class MemberMessage {
  kHeartbeat,  ///< empty: the sender's process runs, though it had nothing else to say
  kLost,       ///< a LostNotice: the sender has decided that a node is lost
  kBye         ///< empty: the sender has finished the job and needs nobody any more
};
/// Their types on the wire (Transport::Send): 1, 2, 3.
constexpr uint32_t MemberType(MemberMessage message) { return 1 + static_cast<uint32_t>(message); }

/// How membership acts on the node's connections. Called from within Membership's methods; must not call it.
class MembershipOutput {
 public:
  virtual ~MembershipOutput() = default;
  /// Sends a message to every connected peer, ahead of bulk data. Must not block; a peer that can't be reached is
  /// skipped.
  virtual void SendToAll(MemberMessage type, const std::string& payload) = 0;
  /// Sends a heartbeat to one peer, likewise.
  virtual void SendHeartbeat(Rank peer) = 0;
  /// When something last went to `peer` that says as much as a heartbeat (Transport::LastSentNs).
  virtual int64_t LastSentNs(Rank peer) = 0;
  /// Sends what is queued and ends the sending side of every connection; receiving goes on.
  virtual void ShutdownAll() = 0;
};

/// A decision that a node is lost.
struct Loss {
  Rank lost = 0;
  Rank detector = 0;  ///< the node that noticed; `lost` itself if it reported its own failure
  std::string cause;
  /// What the node that reported its own failure says of it (a wrong configuration, numbers that are not finite); else
  /// kUnavailable. All nodes of the job leave with its exit status.
  StatusCode code = StatusCode::kUnavailable;

  bool operator==(const Loss&) const = default;
};

/// Decides which node is lost and when the job is over: a state machine without threads or sockets (FailureDetector has
/// both). Report what happens, call Tick at least every 100 ms, then look at state(). There is no limit on how long a
/// computation or a wait for a peer may take: a peer is lost only by an end of stream without BYE, by silence, or by a
/// failed data endpoint.
///
/// All survivors name the same node. The first to decide tells all others before it ends its streams; a node that sees
/// an end of stream waits a moment for such a message; and nodes that decided differently at the same time read on,
/// hear each other's LOST, and settle on one by the same rule: a node that accuses itself is right, else the accuser
/// with the lowest rank is. scheduler/README.md has the states and times.
///
/// Not thread-safe. The output is called from within.
class Membership {
 public:
  /// Times in ns, by `clock`. The defaults are those of a job.
  struct Options {
    Rank self = 0;
    std::vector<std::string> names;            ///< of all nodes, by rank
    int64_t heartbeat_ns = kNsPerSecond / 2;   ///< after the last byte to a peer, a heartbeat is due
    int64_t silence_ns = 2 * kNsPerSecond;     ///< without a byte of a peer: it is lost
    int64_t eof_wait_ns = kNsPerSecond / 5;    ///< after an end of stream, for a LOST that explains it
    int64_t data_grace_ns = kNsPerSecond / 2;  ///< after a data failure, for another explanation of it
    int64_t linger_ns = kNsPerSecond / 2;      ///< reading on after a loss is decided, at most
    int64_t ending_ns = 2 * kNsPerSecond;      ///< reading on at the end of the job, at most
    /// Between two ticks: most that counts, as silence of the others and for eof_wait_ns and data_grace_ns. Ticks are
    /// due twice as often: what they come later is time for which this node itself had no processor.
    int64_t attention_ns = kNsPerSecond / 10;
  };
  enum class State {
    kRunning,
    kLeaving,  ///< a loss is decided and all were told; reading on. Nothing can be sent to peers any more
    kLost,     ///< leave with exit status 4; loss() is final
    kEnding,   ///< all nodes have said BYE; reading on, since closing now could lose a BYE on its way to a peer
    kDone,     ///< leave with exit status 0
  };

  /// @param clock,output must outlive this.
  Membership(Options options, const Clock* clock, MembershipOutput* output);

  // --- Events. Peers are nodes of the table.
  void OnConnected(Rank peer);
  /// The last byte of `peer` arrived at `at_ns` of the clock (Transport::LastHeardNs). Times may come out of order.
  void OnHeard(Rank peer, int64_t at_ns);
  /// @param payload of kLost: a serialised LostNotice; one that names no node of the table is logged and ignored.
  void OnMessage(Rank peer, MemberMessage type, std::string_view payload);
  /// The connection to `peer` is gone, in order or not. @param status its message becomes part of the cause.
  void OnClosed(Rank peer, const Status& status);
  /// A tensor of `peer`, also of one that has said BYE, will not arrive, or a collective that it takes part in failed.
  /// The first failure of a peer counts, and only while this node works. `peer` = self: it is not known whose fault it
  /// is; without another explanation this node accuses itself.
  void OnDataFailure(Rank peer, const Status& cause);
  /// Sends heartbeats to the peers for which they are due, and decides what only the passing of time can decide.
  /// @param listened whether what peers send was read since the last tick: the transport's progress thread ran. Else
  /// the time since then does not count, nor does more of it than Options::attention_ns: this process was stopped, the
  /// machine suspended, or other programs took the processors.
  /// @return the time in ns that does not count as silence.
  int64_t Tick(bool listened);

  // --- What the node does
  /// This node has done all its work, its last snapshot included. kEnding follows when all others have said BYE too.
  void SendBye();
  /// This node can't continue; the others name it with this cause. No effect unless kRunning.
  void Fail(const Status& cause);

  State state() const { return state_; }
  /// Valid in kLeaving, where it may still change, and in kLost.
  const Loss& loss() const { return loss_; }
  /// loss() as one line: `lost node "fc1": nothing heard for 2.0 s (noticed by node "conv0")`.
  std::string Describe() const;

 private:
  struct Peer {
    bool connected = false, bye = false, closed = false;  // each stays once set
    int64_t heard_ns = 0, closed_ns = 0;                  // last byte; end of stream
    int64_t sent_ns = 0, heartbeat_ns = 0;                // last byte to it, as far as known; last heartbeat
    std::string closed_why;
    std::optional<int64_t> failed_ns;  // first failure of a data endpoint
    std::string failed_why;

    /// Whether heartbeats are expected of it.
    bool live() const { return connected && !bye && !closed; }
  };
  /// A sign of a loss that nothing has explained in its time.
  struct Suspicion {
    int64_t since_ns = 0;
    Loss loss;
  };

  void Decide(const Loss& loss);
  void Consider(const Loss& loss);
  void SendHeartbeats(int64_t now);
  void LookForLosses(int64_t now);
  std::optional<Suspicion> SuspicionOf(Rank rank, const Peer& peer, int64_t now) const;
  bool HearsNobody(int64_t now) const;
  bool Accused(Rank rank) const;
  void Forgive(int64_t passed_ns, bool listened, int64_t now);
  void EndIfAllSaidBye();
  void LeaveIfReady(int64_t now);
  Loss Lost(Rank rank, std::string cause) const {
    return {.lost = rank, .detector = options_.self, .cause = std::move(cause)};
  }

  const Options options_;
  const Clock* const clock_;
  MembershipOutput* const output_;
  std::vector<Peer> peers_;  // by rank; our own entry is only used for failures of unknown peers
  State state_ = State::kRunning;
  Loss loss_;
  std::map<Rank, Loss> accusations_;  // by detector
  int64_t decided_ns_ = 0;            // when kLeaving or kEnding began
  int64_t last_tick_ns_ = 0;
  int64_t beat_ = 0;  // number of the latest common moment of heartbeats
  bool bye_sent_ = false;
};

}  // namespace hp
