#pragma once

#include "base/block.h"
#include "base/shape.h"
#include "base/shared_blob.h"
#include "checkpoint/incarnation.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/snapshot.pb.h"
#include "proto/solver_type.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// One parameter of the whole net, all shards together, in host memory.
struct SnapshotParam {
  std::string layer;  ///< name in the prototxt; of the owner, where layers share it
  int blob = 0;       ///< among the layer's blobs, in Caffe's order
  Shape shape;        ///< of the whole blob
  struct Array {
    const float* data = nullptr;  ///< [shape.count()]; null: `read`
    BlobSource read = nullptr;    ///< null: zeros are written (histories of frozen parameters)
  };
  std::array<Array, 1 + kMaxHistories> arrays = {};  ///< the values, then the histories
  /// Blobs of other layers that are the same parameter. As in Caffe a .caffemodel has its values with each of them, an
  /// HDF5 file and a .solverstate once.
  std::vector<SharedBlob> users = {};

  BlobRef Ref(int array) const { return {shape, arrays[array].data, arrays[array].read}; }
};

/// Of the numbers in a .caffemodel or .solverstate that is a protobuf message: its limit, 2 GiB, less 1 MiB for names,
/// shapes and the net's description.
constexpr int64_t kMostMessageBytes = INT32_MAX - (int64_t{1} << 20);

/// Above how many bytes of parameters the snapshots of a solver are HDF5 files: -1 with snapshot_format: HDF5; and a
/// .solverstate has several times as much where there are several histories.
int64_t MostMessageBytes(const caffe::SolverParameter& solver);

/// What a snapshot is made of. Everything it points to must stay unmodified during PrepareSnapshot.
struct SnapshotContents {
  std::string prefix;                        ///< path without "_iter_N...": snapshot_prefix of the solver
  int64_t iteration = 0;                     ///< updates done; the snapshot resumes at this clock
  int current_step = 0;                      ///< LearningRateStep of `iteration`
  const caffe::NetParameter* net = nullptr;  ///< the training net; its own blobs are ignored
  std::vector<SnapshotParam> params;         ///< all of the net, in Caffe's order: by layer, then by blob of the owner
  /// Seed, hashes, nodes, loss scale, and how many histories there are; iteration and the two files are filled in by
  /// PrepareSnapshot.
  SnapshotManifest manifest;
  /// Which start of the job writes it, and may go on writing: asked before each file is replaced. Outlives the
  /// PendingSnapshot. Null: nobody else can.
  const Incarnation* incarnation = nullptr;
  /// Above so many bytes of parameters Caffe's files are HDF5 (hdf5_file.h), named PREFIX_iter_N.caffemodel.h5 and
  /// .solverstate.h5. A test sets less.
  int64_t most_message_bytes = kMostMessageBytes;
  /// The snapshot is there in parts (snapshot_parts.h), and stays until the new manifest has taken the place of theirs.
  bool replaces_parts = false;
  /// Called before each change of the folder with what it will do, e.g. "rename NAME", in PrepareSnapshot and in
  /// Commit; a test ends the process there. May be empty.
  std::function<void(const std::string& step)> before_step;
};

// The paths of a snapshot's files.
std::string SnapshotModelPath(const std::string& prefix, int64_t iteration);     ///< PREFIX_iter_N.caffemodel
std::string SnapshotStatePath(const std::string& prefix, int64_t iteration);     ///< PREFIX_iter_N.solverstate
std::string SnapshotManifestPath(const std::string& prefix, int64_t iteration);  ///< PREFIX_iter_N.hpnode

/// What the names of model and state end in where the net has so many bytes of parameters: ".h5" above
/// `most_message_bytes`, else nothing.
const char* SnapshotEnding(int64_t parameter_bytes, int64_t most_message_bytes);

/// Whether the snapshots that a solver asks for can be written, before hours of training are spent on one that can't.
/// On the nodes that write Caffe's files.
/// @param bytes of all parameters of the net.
/// @return kInvalidArgument: they need HDF5, which this program or host lacks.
Status CheckSnapshotSize(const caffe::SolverParameter& solver, int64_t bytes);

/// A snapshot whose bytes are on the disk under temporary names ("*.START.tmp") beside the final ones. Commit makes it
/// visible under its final names; destruction without Commit removes it. So the slow part, writing, can be done before
/// it is known whether the snapshot is good.
class PendingSnapshot {
 public:
  virtual ~PendingSnapshot() = default;
  /// Removes an older manifest and state of the same iteration, renames the three files into place, the manifest last,
  /// and syncs the folder. A crash at any moment leaves either a whole snapshot or one that ReadSnapshot refuses as
  /// incomplete. Once.
  /// @return an error: a file cannot be replaced or renamed; what stands there then is refused in the same way.
  virtual Status Commit() = 0;
};

/// Writes and syncs the temporary files. After an error nothing is left behind, and no earlier snapshot has changed.
/// Any thread; one snapshot of one prefix and iteration at a time.
/// @return kResourceExhausted: no space; kFailedPrecondition: it needs HDF5 (CheckHdf5); kInvalidArgument: the folder
/// is missing or cannot be written. Commit also kFailedPrecondition: a later start of the job writes them now.
StatusOr<std::unique_ptr<PendingSnapshot>> PrepareSnapshot(const SnapshotContents& contents);

class PartsReader;

/// A snapshot as ReadSnapshot returns it: in memory, or in parts, whose blobs are read when they are asked for, so that
/// a node reads only its own blocks.
struct LoadedSnapshot {
  int64_t iteration = 0;                           ///< updates done
  int current_step = 0;                            ///< as Caffe counts it; LearningRate does not need it
  std::optional<SnapshotManifest> manifest;        ///< nothing: Caffe wrote the snapshot
  std::string state_path;                          ///< the .solverstate or .solverstate.h5 that was read
  CaffeModel model;                                ///< the weights
  std::vector<Blob> file_histories;                ///< in the order of the file; FitSnapshot moves them to `histories`
  std::map<BlobKey, std::vector<Blob>> histories;  ///< by blob: the first one, ...; empty before FitSnapshot
  std::shared_ptr<const PartsReader> parts;        ///< not null: in parts, and the four above are empty

  /// After FitSnapshot: copies a block of one of the net's blobs, dense, to `out` [block.count()]; zeros where there is
  /// no such history. Any thread.
  /// @param array 0: of its values; else of the history of that number.
  /// @return as CaffeModel::CopyBlock; of a snapshot in parts as PartsReader::ReadBlock.
  Status CopyArray(const std::string& layer, int blob, int array, const Shape& shape, const Block& block,
                   std::span<float> out) const;
};

/// Reads the snapshot whose .solverstate is `state_path`, ours or Caffe's own, when the shapes of its net are not known
/// yet: blobs are not compared with anything, and histories have no names. FitSnapshot must follow. Where there is no
/// such file, the snapshot may be in parts, or its state `state_path`.h5.
/// The model is the one that the state names: the file of that name beside the state if there is one, else the path as
/// it stands. A state that hpnode wrote must have its manifest beside it, which must agree with both files to the byte.
/// @return kNotFound: a file is missing; kInvalidArgument: a file can't be opened; kDataLoss: a file is truncated or
/// was changed, or the snapshot was not completed.
StatusOr<LoadedSnapshot> ReadSnapshot(const std::string& state_path, const SnapshotManifest* checked = nullptr);

/// The files that ReadSnapshot of the same path reads, all of them there, a manifest last; states and models are not
/// read whole, nor sums compared. @return kNotFound: one is missing, with what was looked for; kDataLoss: the snapshot
/// was not completed; kFailedPrecondition: no manifest names the files of a .solverstate.h5, and it can't be read
/// (CheckHdf5).
StatusOr<std::vector<std::string>> FilesOfSnapshot(const std::string& state_path);

/// Compares `snapshot` with the net that it is to resume, and fills in `histories`. Once for each snapshot.
/// @param state_path for messages.
/// @param params all blobs of the net, in Caffe's order; only layer, blob and shape are read.
/// @param histories HistoriesOf the solver.
/// @return kFailedPrecondition: it is another net's, and the message names layer, blob, found and expected shape; or
/// another solver type's.
Status FitSnapshot(const std::string& state_path, const std::vector<SnapshotParam>& params, int histories,
                   LoadedSnapshot* snapshot);

/// Both in one, where the net is known before; all is in memory, also of a snapshot in parts. Errors as theirs.
StatusOr<LoadedSnapshot> ReadSnapshot(const std::string& state_path, const std::vector<SnapshotParam>& params,
                                      int histories = 1);

}  // namespace hp
