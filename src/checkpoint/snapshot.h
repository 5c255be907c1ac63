#pragma once

#include "base/shape.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/snapshot.pb.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// One learnable blob of the whole net, all shards together.
struct SnapshotParam {
  std::string layer;
  int blob = 0;
  Shape shape;
  const float* values = nullptr;
  const float* history = nullptr;  ///< null: zeros (frozen)
};

/// What a snapshot is made of. Everything it points to must stay unmodified during PrepareSnapshot.
struct SnapshotContents {
  std::string prefix;                        ///< solver.snapshot_prefix
  int64_t iteration = 0;                     ///< updates done
  int current_step = 0;                      ///< LearningRateStep
  const caffe::NetParameter* net = nullptr;  ///< the train net, without blobs
  std::vector<SnapshotParam> params;         ///< in Caffe's order: that of the layers, then of their blobs
  /// Seed, hashes and nodes; iteration and the two files are filled in by PrepareSnapshot.
  SnapshotManifest manifest;
  /// Called before each change of the folder with what it will do; a test ends the process there. May be empty.
  std::function<void(const std::string& step)> before_step;
};

/// The names of the files of a snapshot.
std::string SnapshotModelPath(const std::string& prefix, int64_t iteration);     ///< PREFIX_iter_N.caffemodel
std::string SnapshotStatePath(const std::string& prefix, int64_t iteration);     ///< PREFIX_iter_N.solverstate
std::string SnapshotManifestPath(const std::string& prefix, int64_t iteration);  ///< PREFIX_iter_N.hpnode

/// A snapshot whose bytes are on the disk under temporary names beside the final ones. It is not there yet for anybody
/// who looks; Commit puts it there, destruction without Commit removes it.
class PendingSnapshot {
 public:
  virtual ~PendingSnapshot() = default;
  /// Renames the three files into place, the manifest last, and syncs the folder. A crash in between leaves either the
  /// whole snapshot or one that ReadSnapshot refuses as incomplete. Once.
  virtual Status Commit() = 0;
};

/// Writes and syncs the temporary files. A full disk leaves nothing behind and no earlier snapshot changed.
/// @return kResourceExhausted: no space; kInvalidArgument: the folder is missing or cannot be written.
StatusOr<std::unique_ptr<PendingSnapshot>> PrepareSnapshot(const SnapshotContents& contents);

/// A snapshot read back.
struct LoadedSnapshot {
  int64_t iteration = 0;
  int current_step = 0;
  std::optional<SnapshotManifest> manifest;  ///< nothing: Caffe wrote it
  CaffeModel model;
  std::vector<Blob> file_histories;  ///< in the order of the file, until FitSnapshot names them
  std::map<BlobKey, Blob> histories;
};

/// Reads the snapshot whose .solverstate is `state_path` before its net is known: its blobs are not compared with
/// anything, and its histories have no names yet.
/// @return as the ReadSnapshot below.
StatusOr<LoadedSnapshot> ReadSnapshot(const std::string& state_path);

/// Compares `snapshot`, read from `state_path`, with a net with the blobs `params`, and gives each its history.
/// @return kFailedPrecondition: it is another net's.
Status FitSnapshot(const std::string& state_path, const std::vector<SnapshotParam>& params, LoadedSnapshot* snapshot);

/// Reads the snapshot whose .solverstate is `state_path`, ours or Caffe's own, for a net with the blobs `params` (in
/// Caffe's order; only layer, blob and shape are read). The model is the one that the state names, beside the state or
/// where it says. A manifest, where there is one, must agree with both files to the byte.
/// @return kNotFound: a file is missing; kDataLoss: a file is truncated, changed, or the snapshot was not completed;
/// kFailedPrecondition: it is another net's (layer, blob, found and expected shape are named).
StatusOr<LoadedSnapshot> ReadSnapshot(const std::string& state_path, const std::vector<SnapshotParam>& params);

}  // namespace hp
