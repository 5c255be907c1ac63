#pragma once

#include "checkpoint/folder_nonce.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"
#include "input/inputs.h"
#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"
#include "scheduler/control/handshake.h"
#include "scheduler/control/latest_snapshot.h"
#include "scheduler/plan/loss_scaler.h"
#include "scheduler/plan/routing_table.h"
#include "solvers/learning_rates.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// Instead of a path: NodeOptions::resume.
constexpr char kResumeLatest[] = "latest";

/// The files of a job as one node reads them, checked: all that it knows before it is connected to the others. Owned by
/// the node, which takes the inputs and the snapshot from it.
struct JobFiles {
  /// Reads the table's solver and net, checks the table beside the net, opens the databases that `node` reads (those of
  /// conv nodes), and reads the snapshot to resume. May take long: a database without a cached index is scanned. Logs
  /// Caffe's first lines. Main thread; opens no connection.
  /// @param table,types need not outlive the result. @param node an entry of the table.
  /// @param resume a .solverstate, ours or Caffe's; kResumeLatest: the newest of this job that any node has, of which
  /// this node looks for its own (Adopt must follow the handshake); empty: none. @param input how
  /// the data is opened.
  /// @param types the layers that the net may have. @param snapshot_prefix instead of the solver's; empty: the
  /// solver's.
  /// @return kInvalidArgument: all faults of the table beside the net, or the first fault of solver or net, by file and
  /// line; kNotFound, kDataLoss: a file or database is missing or corrupt. What keeps a resumed job from the same bits
  /// is logged in one line: another division, threads, program or instruction set; that the snapshot is another net's,
  /// in a line of its own. Whether it fits is known when the model is built.
  static StatusOr<JobFiles> Read(const RoutingTable& table, const NodeInfo& node, const std::string& resume,
                                 const InputOptions& input, const LayerTypes& types = LayerTypes::BuiltIn(),
                                 const std::string& snapshot_prefix = "");
  /// After the handshake of a job that resumes from the latest snapshot: takes it. A node that has it reads it; to one
  /// that lacks it, others send its part (SnapshotTransfer). Not called where there is none.
  /// @param rank our own. @return as Read's of a snapshot.
  Status Adopt(const RoutingTable& table, const LatestSnapshot& latest, Rank rank);
  /// What this node says in its hello, and the others compare with theirs. @param rank its own.
  JobFacts Facts(Rank rank) const;

  /// Files of weights to begin with, from where there is no snapshot. @param flag --weights; empty: the solver's.
  void TakeWeights(const std::string& flag);

  caffe::SolverParameter solver;                   ///< CheckSolver has passed
  std::shared_ptr<const caffe::NetParameter> net;  ///< of all phases, unfiltered
  Inputs inputs;                                   ///< opened, not prepared
  /// Of the newest complete snapshot with the solver's prefix, for Adopt; nothing: none, or another way to start.
  std::optional<FoundSnapshot> found;
  /// What this node says of it. Nothing: the job does not start from the latest.
  std::optional<ResumeLatest> resume_latest;
  /// What is resumed, for messages: a path, or which node has it. Empty: starts afresh.
  std::string resumed;
  std::vector<std::string> weights;  ///< SetInitialParams reads them, the last file over the first
  uint64_t weights_hash = 0;         ///< of their contents; 0: none, or one that can't be read. Equal on all nodes
  /// The seed that the snapshot was made with.
  std::optional<int64_t> resumed_seed;
  /// Of a table that says AUTO: BF16 or FP32, as the snapshot was trained; nothing: it was in another one or does not
  /// say, or there is none.
  std::optional<RoutingTableConfig::Precision> resumed_precision;
  /// The snapshot to resume, whole: each node cuts its slices out of it (SetInitialParams). Null: starts afresh, or
  /// lacks it.
  std::unique_ptr<LoadedSnapshot> snapshot;
  uint64_t snapshot_hash = 0;             ///< of the .solverstate and its manifest; 0: none. Equal on all nodes
  int64_t start_clock = 0;                ///< first iteration: the snapshot's
  RunMark run;                            ///< the snapshot's, or one that begins now; the first node's counts
  std::unique_ptr<FolderNonce> nonce;     ///< on the first node of several, if it can write there
  std::shared_ptr<LearningRates> rates;   ///< with the changes that the snapshot knows of
  std::optional<LossScaler> loss_scaler;  ///< in the state in which the job starts; nothing: losses are not scaled
  /// By rank: the threads with which the snapshot was written, if it was under the same division of the work; training
  /// goes on with these, for the same bits. Empty: the table and the hosts decide.
  std::vector<int> saved_threads;
};

}  // namespace hp
