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

/// What membership says to the other nodes.
enum class MemberMessage { kHeartbeat, kLost, kBye };

/// What membership does to the node's connections.
class MembershipOutput {
 public:
  virtual ~MembershipOutput() = default;
  /// To every connected peer, ahead of bulk data.
  virtual void SendToAll(MemberMessage type, const std::string& payload) = 0;
  /// Sends what is queued and ends the sending side of every connection; receiving goes on.
  virtual void ShutdownAll() = 0;
};

/// A node is lost: who, why, and who noticed.
struct Loss {
  Rank lost = 0;
  Rank detector = 0;
  std::string cause;

  bool operator==(const Loss&) const = default;
};

/// Who is there, who is lost and when the job is over: design of the loss of a node, as a state machine without threads
/// or sockets. Call Tick at least every 100 ms, and report what happens; then look at state(). Waiting is never an
/// error: only an end of stream without BYE, silence of a connection, and a data endpoint that failed are.
///
/// All survivors name the same node: the first to decide tells all others before it ends its streams, whoever sees an
/// end of stream waits for such news, and nodes that decided at the same time differently settle it while they read on.
/// One thread at a time; the output is called from within.
class Membership {
 public:
  struct Options {
    Rank self = 0;
    std::vector<std::string> names;  ///< of all nodes, by rank
    int64_t heartbeat_ns = kNsPerSecond / 2;
    int64_t silence_ns = 2 * kNsPerSecond;
    int64_t eof_wait_ns = kNsPerSecond / 5;    ///< for a LOST on other connections
    int64_t data_grace_ns = kNsPerSecond / 2;  ///< for the node connection to say something else
    int64_t linger_ns = kNsPerSecond / 2;      ///< reading on after a decision, at most
    int64_t ending_ns = 2 * kNsPerSecond;      ///< reading on at the end of the job, at most
    int64_t stall_ns = kNsPerSecond;           ///< between two ticks: more means that this process did not run
  };
  enum class State {
    kRunning,
    kLeaving,  ///< a loss is decided and told; reading on. Post no more.
    kLost,     ///< leave now, exit status 4; loss() is final
    kEnding,   ///< BYE from all to all; reading on, so that nobody's is lost by our closing
    kDone,     ///< leave now, exit status 0
  };

  Membership(Options options, const Clock* clock, MembershipOutput* output);

  void OnConnected(Rank peer);
  /// Any byte of `peer` arrived, at this time of the clock (Transport::LastHeardNs).
  void OnHeard(Rank peer, int64_t at_ns);
  void OnMessage(Rank peer, MemberMessage type, std::string_view payload);
  /// The connection to `peer` is gone, in order or not.
  void OnClosed(Rank peer, const Status& status);
  /// A data endpoint to `peer`, or a collective that it takes part in, failed. `peer` = self: it is not known which.
  void OnDataFailure(Rank peer, const Status& cause);
  void Tick();

  /// This node is through, its last snapshot is written.
  void SendBye();
  /// This node can't go on; the others name it with this cause.
  void Fail(const std::string& cause);

  State state() const { return state_; }
  /// Valid in kLeaving and kLost.
  const Loss& loss() const { return loss_; }
  /// One line for the log: `lost node "fc1": nothing heard for 2.0 s (noticed by node "conv0")`.
  std::string Describe() const;

 private:
  struct Peer {
    bool connected = false, bye = false, closed = false;
    int64_t heard_ns = 0, closed_ns = 0;
    std::string closed_why;
    std::optional<int64_t> failed_ns;  // a data endpoint
    std::string failed_why;

    /// It should talk to us.
    bool live() const { return connected && !bye && !closed; }
  };
  /// Something that will have decided at a time, if nothing else is heard.
  struct Suspicion {
    int64_t since_ns = 0;
    Loss loss;
  };

  void Decide(const Loss& loss);
  void Consider(const Loss& loss);
  void LookForLosses(int64_t now);
  std::optional<Suspicion> SuspicionOf(Rank rank, const Peer& peer, int64_t now) const;
  bool HearsNobody(int64_t now) const;
  bool Accused(Rank rank) const;
  void RestartSilence(int64_t now);
  void EndIfAllSaidBye();
  void LeaveIfReady(int64_t now);
  Loss Lost(Rank rank, std::string cause) const { return {rank, options_.self, std::move(cause)}; }

  const Options options_;
  const Clock* const clock_;
  MembershipOutput* const output_;
  std::vector<Peer> peers_;  // by rank; our own entry is only used for failures of unknown peers
  State state_ = State::kRunning;
  Loss loss_;
  std::map<Rank, Loss> accusations_;  // by detector
  int64_t decided_ns_ = 0;            // the loss, or the end
  int64_t last_tick_ns_ = 0;
  int64_t next_heartbeat_ns_ = 0;
  bool bye_sent_ = false;
};

}  // namespace hp
