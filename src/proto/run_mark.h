#pragma once

#include "proto/snapshot.pb.h"

namespace hp {

/// Whether `run` has left a snapshot of its own: it was resumed from another one, which its user named and which is not
/// behind this one.
bool IsAbandoned(const SnapshotManifest& snapshot, const RunMark& run);

}  // namespace hp
