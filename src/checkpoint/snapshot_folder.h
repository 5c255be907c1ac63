#pragma once

#include "checkpoint/incarnation.h"
#include "hp/status.h"
#include "proto/snapshot.pb.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// Reads a manifest alone. @return kNotFound: no such file; kInvalidArgument: it can't be opened; kDataLoss: it is no
/// manifest.
StatusOr<SnapshotManifest> ReadManifestFile(const std::string& path);
/// Compares a file of a snapshot with what its manifest says; reads it whole. @param manifest_path its folder is that
/// of the file. @return kNotFound, kInvalidArgument: it can't be read; kDataLoss: it is another one.
Status CheckFileSum(const SnapshotFile& file, const std::string& manifest_path);

/// The files that a manifest names: its parts, or Caffe's two. As long as `manifest` lives.
std::vector<const SnapshotFile*> FilesOf(const SnapshotManifest& manifest);

/// A snapshot that a manifest says is there.
struct FoundSnapshot {
  std::string manifest_path, state_path;  ///< its .hpnode, and its .solverstate, which ReadSnapshot takes
  SnapshotManifest manifest;
};

/// The order of snapshots by age: by when their run began, then by iteration. Snapshots without a run are the oldest.
bool IsOlder(const SnapshotManifest& a, const SnapshotManifest& b);

/// The snapshots PREFIX_iter_N whose manifests can be read, the newest first. Their other files are not looked at; a
/// manifest that can't be read is passed over with a warning. Any thread.
std::vector<FoundSnapshot> FindSnapshots(const std::string& prefix);

/// Whether a snapshot's files are all there, to the byte as its manifest says. Reads them whole.
/// @return kNotFound, kInvalidArgument: a file is missing or can't be read; kDataLoss: it is another one.
Status CheckComplete(const FoundSnapshot& snapshot);

/// The newest complete snapshot of a net. One that is newer and not complete is passed over with a warning that names
/// it, one of another net or of a way that `run` has left with a line that does. Reads the files that it checks whole.
/// @param net_hash NetHash. @param run of the latest start. @return nothing: there is none.
std::optional<FoundSnapshot> FindNewestComplete(const std::string& prefix, uint64_t net_hash, const RunMark& run = {});

/// Removes snapshots of a run, all but the `keep` newest and those in use. Manifests go first, so that whatever remains
/// after a crash is refused as incomplete. Of other runs, and of files without a manifest, nothing is touched. Stops
/// where a later start of the job writes the snapshots. Warns of what can't be removed. Any thread, one at a time.
/// @param keep at least 1. @param in_use iterations. @param incarnation may be null.
/// @return how many snapshots were removed.
int PruneSnapshots(const std::string& prefix, const RunMark& run, int keep, const std::set<int64_t>& in_use,
                   const Incarnation* incarnation);

}  // namespace hp
