#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "proto/wire.pb.h"

#include <map>
#include <optional>
#include <vector>

namespace hp {

/// The snapshot that a job goes on from, and who has it.
struct LatestSnapshot {
  SnapshotManifest manifest;  ///< without names of nodes and files
  RunMark run;                ///< the job's, which may have begun anew since
  uint64_t hash = 0;          ///< ResumeLatest::snapshot_hash
  std::vector<Rank> holders;  ///< in their order; at least one

  bool Has(Rank rank) const;
  /// The holder that gives `rank` its part, which has no snapshot itself: they take turns.
  Rank GiverOf(Rank rank) const { return holders[static_cast<size_t>(rank) % holders.size()]; }
};

/// Chooses the newest snapshot of the newest run. A run counts as soon as it was started: where the latest start of the
/// job wrote no snapshot, those of an earlier training are not its own, and there is none; and where it went back to a
/// snapshot, those behind that are none of its own either (IsAbandoned).
/// @param known by rank, as the hellos say; each has passed CheckResumeLatest.
/// @return the same for the same hellos; nothing: no node has a snapshot of that run.
std::optional<LatestSnapshot> ChooseLatest(const std::map<Rank, ResumeLatest>& known);

/// Whether the numbers of a hello are in range. @return kInvalidArgument: which is not.
Status CheckResumeLatest(const ResumeLatest& known);

}  // namespace hp
