#include "scheduler/control/latest_snapshot.h"

#include "base/cores.h"
#include "proto/run_mark.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace hp {
namespace {

auto RunKey(const RunMark& run) { return std::pair(run.began_us(), run.id()); }

auto AgeKey(const ResumeLatest& known) {
  const SnapshotManifest& manifest = known.snapshot();
  return std::tuple(manifest.run().began_us(), manifest.iteration(), known.snapshot_hash());
}

/// The run that began last.
RunMark NewestRun(const std::map<Rank, ResumeLatest>& known) {
  RunMark newest;
  for (const auto& [rank, knows] : known) {
    for (const RunMark& run : {knows.started_run(), knows.snapshot().run()}) {
      if (RunKey(run) > RunKey(newest)) newest = run;
    }
  }
  return newest;
}

}  // namespace

bool LatestSnapshot::Has(Rank rank) const { return std::find(holders.begin(), holders.end(), rank) != holders.end(); }

std::optional<LatestSnapshot> ChooseLatest(const std::map<Rank, ResumeLatest>& known) {
  const RunMark run = NewestRun(known);
  const ResumeLatest* newest = nullptr;
  for (const auto& [rank, knows] : known) {
    if (!knows.has_snapshot() || knows.snapshot().run().id() != run.id() || IsAbandoned(knows.snapshot(), run)) {
      continue;
    }
    if (newest == nullptr || AgeKey(*newest) < AgeKey(knows)) newest = &knows;
  }
  if (newest == nullptr) return std::nullopt;
  LatestSnapshot latest{newest->snapshot(), run, newest->snapshot_hash(), {}};
  for (const auto& [rank, knows] : known) {
    if (knows.has_snapshot() && knows.snapshot_hash() == latest.hash) latest.holders.push_back(rank);
  }
  return latest;
}

Status CheckResumeLatest(const ResumeLatest& known) {
  for (const RunMark& run : {known.started_run(), known.snapshot().run()}) {
    if (run.began_us() < 0 || run.resumed_began_us() < 0) return InvalidArgument("a run that began before 1970");
    if (run.resumed_from() < 0) return InvalidArgument("a run that was resumed from an iteration below 0");
  }
  if (!known.has_snapshot()) return OkStatus();
  const SnapshotManifest& manifest = known.snapshot();
  if (manifest.iteration() < 0 || manifest.iteration() > INT32_MAX) {
    return InvalidArgument("a snapshot of iteration %lld", static_cast<long long>(manifest.iteration()));
  }
  if (manifest.random_seed() < 0) return InvalidArgument("a snapshot with a seed below 0");
  for (const SnapshotNode& node : manifest.node()) {
    if (node.threads() < 1 || node.threads() > kMaxThreads)
      return InvalidArgument("a snapshot of nodes with %d threads", node.threads());
  }
  return OkStatus();
}

}  // namespace hp
