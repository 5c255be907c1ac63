#pragma once

#include "base/block.h"
#include "checkpoint/incarnation.h"
#include "checkpoint/snapshot.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/snapshot.pb.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hp {

// Snapshots in parts: where all nodes of a job have one folder, each writes the slices of parameters and histories that
// it owns into a file of its own, and a manifest that names these files makes them a snapshot. Merging makes Caffe's
// two files of them, whose manifest takes the place of the first one.

/// PREFIX_iter_N.START.OWNER.slices: the file of one node, by the number of the job's start (Incarnation) and its rank.
std::string SnapshotPartPath(const std::string& prefix, int64_t iteration, int64_t start, int owner);

/// Makes a snapshot of parts that are on the disk: removes an older snapshot of the same iteration, its manifest first,
/// and writes, syncs and renames the new manifest. A crash at any moment leaves a whole snapshot or none. Any thread.
/// @param contents prefix, iteration, current_step, incarnation, before_step, and a manifest with `part` and `blob`;
/// net and params are not read.
/// @return kDataLoss: a part has not the size that the manifest says, or its slices do not make up the blobs; errors of
/// the disk as PrepareSnapshot's; kFailedPrecondition: a later start of the job writes the snapshots now.
Status CommitParts(const SnapshotContents& contents);

/// By parameter that layers share, under its owner's name: SnapshotParam::users.
using BlobUsers = std::map<BlobKey, std::vector<SharedBlob>>;

/// Writes Caffe's files of a snapshot in parts, and its manifest over the old one, and removes the parts: until the
/// last rename the parts are the snapshot. Reads and writes 1 MiB at a time. Does nothing to a snapshot without parts.
/// Any thread, one at a time; nobody may be reading the snapshot (ReadSnapshot).
/// @param net the training net. @param users of its parameters. @param incarnation,before_step,most_message_bytes as
/// SnapshotContents has them.
/// @return as PrepareSnapshot and PendingSnapshot::Commit; kDataLoss: the parts are damaged.
Status MergeParts(const std::string& prefix, int64_t iteration, const caffe::NetParameter& net, const BlobUsers& users,
                  const Incarnation* incarnation, const std::function<void(const std::string& step)>& before_step,
                  int64_t most_message_bytes = kMostMessageBytes);

/// Reads blobs of a snapshot in parts, wherever their slices lie. Any thread.
class PartsReader {
 public:
  /// Opens the files and checks that the slices fit the blobs and the files; sums are CheckFileSum's business.
  /// @param manifest_path in whose folder the files are.
  /// @return kNotFound, kInvalidArgument: a file can't be opened; kDataLoss: the manifest contradicts itself or a file.
  static StatusOr<std::shared_ptr<const PartsReader>> Open(const SnapshotManifest& manifest,
                                                           const std::string& manifest_path);
  ~PartsReader();
  PartsReader(const PartsReader&) = delete;

  int blobs() const { return static_cast<int>(shapes_.size()); }
  const Shape& shape(int blob) const { return shapes_[blob]; }
  /// @return the index of a blob; nothing: there is none.
  std::optional<int> Find(const std::string& layer, int blob) const;
  // `array`: 0: the values of a blob; else the history of that number.

  /// False: it has no such history (frozen parameters).
  bool Has(int blob, int array) const { return slices_.contains({blob, array}); }
  /// Fills `out` with a blob's bytes from byte `begin` on, counted row-major in the whole blob.
  /// @return kInvalidArgument, kDataLoss: a file can't be read, or is too short.
  Status Read(int blob, int array, int64_t begin, std::span<char> out) const;
  /// Reads a block of a blob, dense, to `out` [block.count()]. Errors likewise.
  Status ReadBlock(int blob, int array, const Block& block, std::span<float> out) const;

 private:
  struct Slice {
    Block block;
    int fd = -1;
    int64_t offset = 0;  // in the file
  };
  PartsReader() = default;
  Status Add(const SnapshotPart& part, const std::string& path, int histories);
  Status CheckWhole() const;

  std::string manifest_path_;
  std::vector<Shape> shapes_;
  std::map<BlobKey, int> index_;
  std::map<std::pair<int, int>, std::vector<Slice>> slices_;  // by blob and array
  std::vector<int> fds_;
};

/// Reads all blobs of a snapshot in parts into its model and histories. @return as PartsReader::Read.
Status ReadAllParts(LoadedSnapshot* snapshot);

}  // namespace hp
