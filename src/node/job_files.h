#pragma once

#include "checkpoint/snapshot.h"
#include "engine/input/input.h"
#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"
#include "scheduler/control/handshake.h"
#include "scheduler/plan/loss_scaler.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What a node knows of its job before it meets the others: its files, read and checked.
struct JobFiles {
  /// Reads the table's solver and net, opens the databases that `node` reads, and the snapshot to resume.
  /// @param resume a .solverstate; empty: none. @param cache_dir of record indexes; empty: the user's.
  /// @param types of the layers that the net may have.
  /// @return every fault of the table, or the first of another file, by name and line.
  static StatusOr<JobFiles> Read(const RoutingTable& table, const NodeInfo& node, const std::string& resume,
                                 const std::string& cache_dir, const LayerTypes& types = LayerTypes::BuiltIn());
  /// What the others have to agree with.
  JobFacts Facts(Rank rank) const;

  caffe::SolverParameter solver;
  std::shared_ptr<const caffe::NetParameter> net;
  std::unique_ptr<Input> train_input, test_input;  ///< null: this node reads none
  std::unique_ptr<LoadedSnapshot> snapshot;        ///< null: starts afresh
  uint64_t snapshot_hash = 0;                      ///< of the file and its manifest; 0: none
  int64_t start_clock = 0;
  std::optional<LossScaler> loss_scaler;  ///< as the job starts with it; nothing: it does not scale its losses
  std::vector<int> saved_threads;  ///< of the nodes when the snapshot was written, by rank; empty: of no meaning here
};

}  // namespace hp
