#pragma once

#include "base/cores.h"
#include "base/mutex.h"
#include "hp/status.h"
#include "proto/wire.pb.h"
#include "scheduler/control/latest_snapshot.h"
#include "scheduler/plan/routing_table.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// What a node says about itself in its hello: what its peers must agree with, and what they learn from it.
struct JobFacts {
  Rank rank = 0;
  uint64_t net_hash = 0, solver_hash = 0;  ///< NetHash, SolverHash (proto/hash.h)
  int64_t start_clock = 0;                 ///< the first iteration to run; 0 unless resumed from a given snapshot
  uint64_t snapshot_hash = 0;              ///< of the .solverstate and its manifest; 0: started afresh
  uint64_t weights_hash = 0;               ///< of the files of weights to begin with; 0: none that it can read
  int64_t random_seed = -1;                ///< of the solver or the snapshot; -1: not given
  uint64_t dataset_hash = 0;               ///< of the databases' content; 0: this node reads no data
  std::vector<DataShape> data_shapes;      ///< of each phase that this node reads; empty: it reads none
  std::vector<CorePool> core_pools;        ///< CorePools()
  uint64_t host_id = 0;                    ///< HostId(); 0: unknown, then hosts are told apart by name
  /// What this node knows of earlier snapshots, if the job is to resume from the latest one of any node.
  std::optional<ResumeLatest> resume_latest = {};
  uint64_t program = 0;              ///< ProgramId()
  std::string instruction_set = {};  ///< InstructionSet()
  bool lacks_bfloat16 = false;       ///< its device cannot do what `precision: BF16` asks for
  RunMark run = {};                  ///< the first node's counts
  uint64_t folder_nonce = 0;         ///< FolderNonce::number(); 0: none
};

/// Admits the nodes of our job and refuses everyone else, and keeps what each node said in its hello.
///
/// Both sides compare the same facts, so both find a difference, and the message, which names both nodes, reads the
/// same on both. Which refusals end the job:
/// - A node with our table, but with another net, solver, start, seed or data, is a node of this job that was started
///   wrongly: until the job is complete, the job can't start.
/// - A hello of another program, job or table is refused, and nothing else happens. So is one in the name of a node
///   that is connected, and a client's when kMaxClients are connected.
/// - Once the job can't start, every node that comes is refused with the reason.
///
/// HandshakePolicy's methods are called on the progress thread; all others may be called from any thread.
class JobHandshake : public HandshakePolicy {
 public:
  static constexpr size_t kMaxClients = 16;

  /// Either may be null. Called on the progress thread or from within GiveUp, under no lock.
  struct Callbacks {
    /// At most once: the job can't start, for this reason (kFailedPrecondition: exit status 2).
    std::function<void(const Status&)> on_fatal;
    /// `rank` will not be connected. Ok: we refused it, and it has been told why. Else it refused us, for this reason.
    std::function<void(Rank rank, const Status& refused_us)> on_refused;
  };
  /// Rank 0 draws a seed here if `facts` gives none. @param table must outlive this.
  JobHandshake(const RoutingTable& table, const JobFacts& facts, Callbacks callbacks);

  /// The facts of this node, as a serialised hp::Hello.
  std::string Hello() override;
  /// To a node the same; to a client only what it needs to know whom it reached.
  std::string Answer(std::string_view hello) override;
  Rank ClaimedRank(std::string_view hello) const override;
  bool ClaimsControl(std::string_view hello) const override;
  /// @return the rank of a node of this job, or a new rank from kFirstClientRank up for a client, from
  /// kFirstControllerRank up for one that gives orders. kInvalidArgument: not
  /// a hello of hpnode; kFailedPrecondition: what differs, or why the job can't start. It names nothing of ours to who
  /// has not said that it has our table.
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnClientAddress(Rank client, const std::string& address) override HP_EXCLUDES(mutex_);
  void OnRefused(Rank peer, const Status& reason) override;
  void OnRefusalSent(std::string_view hello) override;

  /// The peer, node or client, is connected. What a node said counts from then on: further hellos in its name are
  /// refused or have no effect.
  void OnConnected(Rank peer) HP_EXCLUDES(mutex_);
  /// A client's connection has ended.
  void OnClientGone(Rank client) HP_EXCLUDES(mutex_);
  /// From where a connected client came, "ADDRESS:PORT"; empty: unknown.
  std::string ClientAddress(Rank client) const HP_EXCLUDES(mutex_);

  /// The job can't start for `reason`: refuses all nodes that come from now on. The first call calls on_fatal; later
  /// ones have no effect.
  void GiveUp(const Status& reason) HP_EXCLUDES(mutex_);
  /// Whether all nodes of the table have been accepted.
  bool complete() const HP_EXCLUDES(mutex_);
  /// The job's seed: that of the lowest accepted rank that has one. Rank 0 always has one, given or drawn, so when
  /// complete it is the same on all nodes. Nothing: no node accepted so far has one.
  std::optional<int64_t> seed() const HP_EXCLUDES(mutex_);
  /// The snapshot from which the job goes on, of those that the nodes said they have; nothing: none has one. Call when
  /// complete: then it is the same on all nodes.
  std::optional<LatestSnapshot> latest_snapshot() const HP_EXCLUDES(mutex_);
  /// What the first node said of the job. Call when complete.
  RunMark run() const HP_EXCLUDES(mutex_);
  uint64_t folder_nonce() const HP_EXCLUDES(mutex_);
  /// What the data layers of the job yield, as the first accepted node that reads data says; empty: none does so far.
  std::vector<DataShape> data_shapes() const HP_EXCLUDES(mutex_);
  /// The executor threads of a node: the table's number, else the least of its shares of its core pools, 1 to
  /// kMaxThreads. The nodes of a host that have a pool share what the table's numbers leave of it. Call when complete:
  /// then it is the same on all nodes.
  int ThreadsOf(Rank rank) const HP_EXCLUDES(mutex_);
  /// What a node said of itself that decides the bits of its sums, without its threads. Call when complete.
  SnapshotNode DescribeNode(Rank rank) const HP_EXCLUDES(mutex_);
  /// What the node said of its device. Call when complete.
  bool LacksBFloat16(Rank rank) const HP_EXCLUDES(mutex_);
  /// The nodes that run on the host of `rank`, itself among them, in the order of the table. Call when complete.
  std::vector<Rank> NodesOnHostOf(Rank rank) const HP_EXCLUDES(mutex_);

 private:
  bool IsConnected(Rank peer) const HP_EXCLUDES(mutex_);
  StatusOr<Rank> AcceptClient(const hp::Hello& hello) HP_EXCLUDES(mutex_);
  Status CheckJob(const hp::Hello& hello) const;
  /// Whether the hello is of another node of this job.
  Status CheckBelongs(const hp::Hello& hello) const;
  /// Ends the job by what differs on a node of it that has not connected. @return `difference`.
  Status GiveUpOn(Rank peer, const Status& difference) HP_EXCLUDES(mutex_);
  bool OnOneHost(const hp::Hello& a, const hp::Hello& b) const;
  int64_t ShareOf(const hp::Hello& own, const SharedCores& pool) const HP_REQUIRES(mutex_);

  const RoutingTable& table_;
  const Callbacks callbacks_;
  hp::Hello own_;
  mutable Mutex mutex_;
  std::map<Rank, hp::Hello> hellos_ HP_GUARDED_BY(mutex_);       // our own among them
  Status given_up_ HP_GUARDED_BY(mutex_);                        // not ok: why the job can't start
  std::set<Rank> connected_ HP_GUARDED_BY(mutex_);               // nodes and clients
  std::map<Rank, std::string> addresses_ HP_GUARDED_BY(mutex_);  // of clients
  int accepted_clients_ = 0;                                     // so far. Progress thread
};

/// The policy of a client: a tool that asks a node for the weights or the status of its job, or orders something, and
/// takes no part in the training.
class ClientHandshake : public HandshakePolicy {
 public:
  /// @param table of the job; must outlive this.
  /// @param on_refused called on the progress thread when the node refuses the client; must not be null.
  /// @param control whether it wants to give orders.
  ClientHandshake(const RoutingTable& table, std::function<void(const Status&)> on_refused, bool control = false)
      : table_(table), on_refused_(std::move(on_refused)), control_(control) {}

  std::string Hello() override;
  /// @return the rank of the node that answers. kInvalidArgument: not a hello of hpnode; kFailedPrecondition: a node of
  /// another job, or none of the table. Hashes are not compared.
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnRefused(Rank peer, const Status& reason) override;

 private:
  const RoutingTable& table_;
  const std::function<void(const Status&)> on_refused_;
  const bool control_;
};

}  // namespace hp
