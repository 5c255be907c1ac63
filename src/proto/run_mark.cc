#include "proto/run_mark.h"

namespace hp {

bool IsAbandoned(const SnapshotManifest& snapshot, const RunMark& run) {
  return run.has_resumed_from() && snapshot.run().id() == run.id() && snapshot.run().began_us() < run.began_us() &&
         snapshot.iteration() > run.resumed_from();
}

}  // namespace hp
