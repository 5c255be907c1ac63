// From the failure of an incarnation to the start of the next one: the old nodes are dead, lost hosts are replaced, and
// it is known whether there is a snapshot to go on from.
#include "tools/cluster/launcher.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int kFailuresOfOneHost = 2;  // by then it is its host rather than its node

}  // namespace

Status Launcher::PrepareRestart() {
  HP_RETURN_IF_ERROR(AwaitOldNodes());
  ReplaceHosts();
  hosts_ = HostsOfTable(options_.files.table);
  HP_RETURN_IF_ERROR(agents_->Connect(hosts_));
  return ChooseResumed();
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
    const bool failed_again =
        first_failed_ >= 0 && nodes_[first_failed_].host == host && failures_of_host_[host] >= kFailuresOfOneHost;
    if (!lost && !failed_again) continue;
    if (!options_.spares.empty())
      ReplaceHost(host);
    else if (lost)
      LOG(WARNING) << "host " << host << " is lost, and --spares has no other: trying it once more";
  }
}

// By the first of the spares, which are not used up.
void Launcher::ReplaceHost(const std::string& host) {
  const std::string spare = options_.spares.front();
  options_.spares.erase(options_.spares.begin());
  LOG(WARNING) << "host " << spare << " takes the place of " << host;
  folder_->Record("host " + spare + " takes the place of " + host);
  agents_->Disconnect(host);
  for (NodeConfig& node : *options_.files.table.mutable_node()) {
    if (node.host() == host) node.set_host(spare);
  }
}

// The nodes find the newest complete snapshot and give it to those that lack it. Only where this job has written one: a
// snapshot_prefix may have those of an earlier training too, which a job that began anew does not go on from.
Status Launcher::ChooseResumed() {
  bool there = false;
  for (auto manifest = snapshots_.rbegin(); manifest != snapshots_.rend() && !there; ++manifest) {
    for (auto host = hosts_.begin(); host != hosts_.end() && !there; ++host) {
      HP_ASSIGN_OR_RETURN(there, agents_->Has(*host, *manifest));
    }
  }
  options_.resume = there ? kFromLatest : first_resume_;
  if (there || first_resume_ == kFromLatest) return OkStatus();
  if (snapshots_.empty()) {
    LOG(WARNING) << "the job has written no snapshot: it begins as it did before";
  } else {
    LOG(WARNING) << "no host has a complete snapshot of the job's: it begins as it did before";
  }
  return OkStatus();
}

}  // namespace hp
