// From the failure of an incarnation to the start of the next one: the old nodes are dead, lost hosts are replaced, and
// the newest complete snapshot is on all hosts.
#include "base/clock.h"
#include "checkpoint/snapshot_folder.h"
#include "tools/cluster/launcher.h"
#include "tools/cluster/newest_snapshot.h"

#include "glog/logging.h"

#include <filesystem>
#include <utility>

namespace hp {
namespace {

constexpr int kFailuresOfOneHost = 2;  // by then it is its host rather than its node

}  // namespace

Status Launcher::PrepareRestart() {
  HP_RETURN_IF_ERROR(AwaitOldNodes());
  ReplaceHosts();
  hosts_ = HostsOfTable(options_.files.table);
  HP_RETURN_IF_ERROR(agents_->Connect(hosts_));
  return FindSnapshot();
}

Status Launcher::AwaitOldNodes() {
  for (const Node& node : nodes_) {
    if (node.lost) HP_RETURN_IF_ERROR(agents_->AwaitSilence(node.host));
  }
  return OkStatus();
}

void Launcher::ReplaceHosts() {
  for (const std::string& host : HostsOfTable(options_.files.table)) {
    const bool lost = agents_->IsLost(host);
    const int node = first_failed_;
    const bool failed_again = node >= 0 && nodes_[node].host == host && failures_of_host_[host] >= kFailuresOfOneHost;
    if (!lost && !failed_again) continue;
    if (options_.spares.empty()) {
      if (lost) LOG(WARNING) << "host " << host << " is lost, and --spares has no other: trying it once more";
      continue;
    }
    ReplaceHost(host, options_.spares.front());
    options_.spares.erase(options_.spares.begin());
  }
}

void Launcher::ReplaceHost(const std::string& host, const std::string& spare) {
  LOG(WARNING) << "host " << spare << " takes the place of " << host;
  folder_->Record("host " + spare + " takes the place of " + host);
  agents_->Disconnect(host);
  for (NodeConfig& node : *options_.files.table.mutable_node()) {
    if (node.host() == host) node.set_host(spare);
  }
}

// Each host says what it has, since the first node's own disk may be the only one that has any.
Status Launcher::FindSnapshot() {
  const std::string prefix = options_.files.solver.snapshot_prefix();
  // Older ones may be of another run with the same prefix. Clocks of hosts may differ; how long ago it was does not.
  const int64_t age_s = (Clock::Real()->NowNs() - began_ns_) / kNsPerSecond + 1;
  std::map<std::string, std::vector<std::string>> questions;
  for (const std::string& host : hosts_) {
    questions[host] = {"--newest_snapshot=" + prefix, "--most_age_s=" + std::to_string(age_s)};
  }
  HP_ASSIGN_OR_RETURN(const auto answers, agents_->Ask("hplaunch", questions));
  std::optional<SnapshotPlace> best = NewestSnapshot(prefix, age_s);
  std::string holder;  // empty: this host, which may be none of the job's
  for (const auto& [host, answered] : answers) {
    for (const std::string& line : answered.lines) {
      const std::optional<SnapshotPlace> place = ParseSnapshotLine(line);
      if (!place || (best && place->iteration <= best->iteration)) continue;
      best = place;
      holder = host;
    }
  }
  if (!best) {
    LOG(WARNING) << "there is no complete snapshot: the job begins as it did before";
    return OkStatus();
  }
  LOG(WARNING) << "resuming at iteration " << best->iteration << ", from the snapshot of "
               << (holder.empty() ? "this host" : "host " + holder);
  options_.resume = best->state_path;
  return SpreadSnapshot(holder, best->state_path);
}

// Each node reads the whole snapshot. It goes through the run folder of this host, unless this host has it in its place
// (`holder` is empty).
Status Launcher::SpreadSnapshot(const std::string& holder, const std::string& state_path) {
  const std::string folder = std::filesystem::path(state_path).parent_path().string();
  const std::string here = holder.empty() ? folder : options_.folder + "/snapshots";
  const std::string name = std::filesystem::path(state_path).stem().string();
  // The manifest says what else there is; Caffe's own has none.
  const std::string manifest_path = here + "/" + name + ".hpnode";
  if (!holder.empty()) HP_RETURN_IF_ERROR(agents_->Fetch(holder, folder + "/" + name + ".hpnode", manifest_path));
  std::vector<std::string> names = {name + ".caffemodel", name + ".solverstate"};
  if (const StatusOr<SnapshotManifest> manifest = ReadManifestFile(manifest_path); manifest.ok()) {
    names.clear();
    for (const SnapshotFile* file : FilesOf(*manifest)) names.push_back(file->name());
  }
  std::vector<std::string> paths;
  if (FilesBelow(manifest_path).ok()) paths.push_back(manifest_path);
  for (const std::string& file : names) {
    paths.push_back(here + "/" + file);
    if (!holder.empty()) HP_RETURN_IF_ERROR(agents_->Fetch(holder, folder + "/" + file, paths.back()));
  }
  return agents_->PutFiles(hosts_, paths, here, folder);
}

}  // namespace hp
