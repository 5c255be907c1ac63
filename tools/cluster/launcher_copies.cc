// A spare can take the place of a host only if the snapshots are not lost with that one: all hosts and spares have one
// folder for them, or a second host of the table has copies. Which of them have the folder is found out before a node
// runs, and not when a host is lost.
#include "base/pending_file.h"
#include "base/words.h"
#include "checkpoint/folder_nonce.h"
#include "tools/cluster/launcher.h"

#include "glog/logging.h"

#include <algorithm>
#include <filesystem>

namespace hp {
namespace {

namespace fs = std::filesystem;

bool Contains(const std::vector<std::string>& hosts, const std::string& host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

}  // namespace

Status Launcher::CheckCopies() {
  if (options_.spares.empty() || options_.files.table.snapshot_copies() > 1) return OkStatus();
  const bool restarted = !nodes_.empty();  // spares have been asked
  std::vector<std::string> spares;
  if (!restarted) {
    HP_ASSIGN_OR_RETURN(spares, ReachableSpares());
  }
  std::vector<std::string> asked = hosts_;
  for (const std::string& spare : spares) {
    if (!Contains(hosts_, spare)) asked.push_back(spare);
  }
  const StatusOr<std::vector<std::string>> without = HostsWithoutSnapshots(asked);
  for (const std::string& spare : spares) {
    if (!Contains(hosts_, spare)) agents_->Disconnect(spare);
  }
  HP_RETURN_IF_ERROR(without.status());
  if (without->empty()) return OkStatus();
  if (options_.planned && hosts_.size() > 1) {
    LOG(INFO) << "the hosts share no folder for snapshots, and there are spares: a second host writes each one too "
              << "(snapshot_copies: 2)";
    options_.files.table.set_snapshot_copies(2);
    return OkStatus();
  }
  const Status status = NotShared(*without);
  if (!restarted) return status;
  LOG(WARNING) << status.message();  // this job goes on from what there is
  return OkStatus();
}

// One that is off now may be there when it is needed.
StatusOr<std::vector<std::string>> Launcher::ReachableSpares() {
  HP_ASSIGN_OR_RETURN(const auto results, agents_->TryConnect(options_.spares));
  std::vector<std::string> reachable;
  for (const auto& [spare, result] : results) {
    if (result.ok()) {
      reachable.push_back(spare);
    } else if (result.code() == StatusCode::kUnavailable) {
      LOG(WARNING) << "--spares: whether " << spare
                   << " shares the folder of snapshots is not known: " << result.message();
    } else {
      return result.Prepend("--spares");
    }
  }
  return reachable;
}

// One host gets a file with a drawn name, which those that have its folder see.
StatusOr<std::vector<std::string>> Launcher::HostsWithoutSnapshots(const std::vector<std::string>& hosts) {
  const uint64_t number = FolderNonce::DrawNumber();
  const std::string there = FolderNonce::PathOf(options_.files.solver.snapshot_prefix(), number);
  const std::string here = options_.folder + "/nonce-" + NewRunId();
  HP_RETURN_IF_ERROR(WriteWholeFile(here, FolderNonce::TextOf(number)));
  const Status put = agents_->PutFiles({hosts[0]}, {here}, here, there);
  std::error_code ignored;
  fs::remove(here, ignored);
  HP_RETURN_IF_ERROR(put);
  std::vector<std::string> without;
  for (const std::string& host : hosts) {
    HP_ASSIGN_OR_RETURN(const bool has, agents_->Has(host, there));
    if (!has) without.push_back(host);
  }
  HP_RETURN_IF_ERROR(agents_->Remove(hosts[0], there));
  return without;
}

Status Launcher::NotShared(const std::vector<std::string>& without) const {
  std::vector<std::string> names;
  for (const std::string& host : without) names.push_back((Contains(hosts_, host) ? "host " : "spare ") + host);
  return FailedPrecondition(
      "--spares: the folder of snapshots of host %s, %s, is not shared by %s: a host that is lost takes them with it; "
      "let all hosts and spares share that folder (snapshot_prefix in the solver names it), or %s, so that a second "
      "host has them too",
      hosts_[0].c_str(), fs::path(options_.files.solver.snapshot_prefix()).parent_path().c_str(), Join(names).c_str(),
      hosts_.size() > 1 ? "write \"snapshot_copies: 2\" into the table"
                        : "have nodes on a second host and \"snapshot_copies: 2\" in the table");
}

}  // namespace hp
