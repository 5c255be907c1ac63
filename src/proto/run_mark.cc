#include "proto/run_mark.h"

namespace hp {

bool IsAbandoned(const SnapshotManifest& snapshot, const RunMark& run) {
  const RunMark& wrote = snapshot.run();
  if (!run.has_resumed_from() || wrote.id() != run.id() || wrote.began_us() >= run.began_us()) return false;
  return snapshot.iteration() > run.resumed_from() || wrote.began_us() > run.resumed_began_us();
}

}  // namespace hp
