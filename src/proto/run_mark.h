#pragma once

#include "proto/snapshot.pb.h"

namespace hp {

/// Whether `snapshot` is one that `run` wrote and has left: its user named another one to go on from, and this one is
/// not on the way to that.
bool IsAbandoned(const SnapshotManifest& snapshot, const RunMark& run);

}  // namespace hp
