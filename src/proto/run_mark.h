#pragma once

#include "proto/snapshot.pb.h"

namespace hp {

/// Whether `run` went back behind a snapshot of its own: it was resumed from an earlier one, which its user named.
bool IsAbandoned(const SnapshotManifest& snapshot, const RunMark& run);

}  // namespace hp
