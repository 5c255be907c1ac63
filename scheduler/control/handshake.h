#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "proto/wire.pb.h"
#include "scheduler/plan/routing_table.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What a node says about itself and wants its peers to agree with.
struct JobFacts {
  Rank rank = 0;
  uint64_t net_hash = 0, solver_hash = 0;
  int64_t start_clock = 0;
  uint64_t snapshot_hash = 0;  ///< 0: started afresh
  int64_t random_seed = -1;    ///< of the solver or the snapshot; -1: not given
  uint64_t dataset_hash = 0;   ///< 0: this node reads no data
  std::vector<DataShape> data_shapes;
  int cores = 1;         ///< AvailableCores()
  uint64_t host_id = 0;  ///< HostId()
};

/// Lets in the nodes of our job and nobody else. Both sides compare everything, so a difference is found on both, and
/// the message, which names both nodes, reads the same on both. A node whose table agrees but whose net, solver, start,
/// seed or data do not is one of ours started wrongly: before the job is complete that is fatal here too. Anybody
/// else's hello costs him his connection and us nothing. Once the job can't come together, every node that comes is
/// refused with the reason.
///
/// HandshakePolicy's methods come on the progress thread; all others may be called from any thread.
class JobHandshake : public HandshakePolicy {
 public:
  struct Callbacks {
    /// At most once: the job can't come together, for this reason (exit status 2).
    std::function<void(const Status&)> on_fatal;
    /// `rank` will not be connected: we refused it and told it why (ok), or it refused us for this reason.
    std::function<void(Rank rank, const Status& refused_us)> on_refused;
  };
  /// @param table must outlive this.
  /// @param callbacks come on the progress thread, or from within GiveUp.
  JobHandshake(const RoutingTable& table, const JobFacts& facts, Callbacks callbacks);

  std::string Hello() override;
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnRefused(Rank peer, const Status& reason) override;
  void OnRefusalSent(std::string_view hello) override;

  /// The job can't come together for `reason`; calls on_fatal, if this is the first one.
  void GiveUp(const Status& reason) HP_EXCLUDES(mutex_);
  /// All nodes of the table have been accepted.
  bool complete() const HP_EXCLUDES(mutex_);
  /// What `rank` said; nothing before it was accepted.
  std::optional<hp::Hello> HelloOf(Rank rank) const HP_EXCLUDES(mutex_);
  /// The job's seed: the one given, else the one that rank 0 drew. Nothing: given to nobody here, and rank 0 was not
  /// accepted yet.
  std::optional<int64_t> seed() const HP_EXCLUDES(mutex_);
  /// What the data layers of the job yield, as the first node that reads data says; empty before.
  std::vector<DataShape> data_shapes() const HP_EXCLUDES(mutex_);
  /// The threads of a node: the table's, else its share of what is left of its host's cores; at least 1. The same on
  /// every node. Call when complete.
  int ThreadsOf(Rank rank) const HP_EXCLUDES(mutex_);

 private:
  StatusOr<Rank> AcceptClient(const hp::Hello& hello);

  const RoutingTable& table_;
  const Callbacks callbacks_;
  hp::Hello own_;
  mutable Mutex mutex_;
  std::map<Rank, hp::Hello> hellos_ HP_GUARDED_BY(mutex_);  // our own among them
  Status given_up_ HP_GUARDED_BY(mutex_);
  int clients_ = 0;  // so far
};

/// The policy of a tool that asks a node for the weights of its job.
class ClientHandshake : public HandshakePolicy {
 public:
  /// @param table must outlive this. `on_refused` comes on the progress thread.
  ClientHandshake(const RoutingTable& table, std::function<void(const Status&)> on_refused)
      : table_(table), on_refused_(std::move(on_refused)) {}

  std::string Hello() override;
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnRefused(Rank peer, const Status& reason) override;

 private:
  const RoutingTable& table_;
  const std::function<void(const Status&)> on_refused_;
};

}  // namespace hp
