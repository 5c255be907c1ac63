// NFS repeats a request whose reply was lost. A link() or rename() that was carried out is then carried out again, and
// fails: so its return says nothing, and what is there afterwards is looked at. A client also remembers that a name was
// missing until it sees that the folder has changed: to create a file in it is a change that it sees.
#include "rendezvous/folder_store.h"

#include "base/format.h"

namespace hp {
namespace {

constexpr int64_t kLeaseNs = 10 * kNsPerSecond;
constexpr char kNodePrefix[] = "node.";

std::string TableName(int incarnation) { return Format("table.%d", incarnation); }
std::string LeaseName(int incarnation, int number) { return Format("lease.%d.%d", incarnation, number); }

}  // namespace

StatusOr<std::unique_ptr<FolderStore>> FolderStore::Open(const std::string& path, const std::string& self,
                                                         FileSeam* files, const Clock* clock) {
  HP_RETURN_IF_ERROR(files->MakeFolder(path));
  return std::unique_ptr<FolderStore>(new FolderStore(path, self, files, clock));
}

StatusOr<bool> FolderStore::CreateOnce(const std::string& name, const std::string& bytes) {
  const std::string temporary = Temporary();
  HP_RETURN_IF_ERROR(files_->WriteFile(temporary, bytes));
  const Status linked = files_->Link(temporary, PathOf(name));
  const StatusOr<int> links = files_->CountLinks(temporary);
  (void)files_->Remove(temporary).ok();  // a leftover harms nobody
  if (!links.ok()) return links.status();
  if (*links == 2) return true;
  // Not created: there is one already, or something else is wrong.
  HP_ASSIGN_OR_RETURN(const std::optional<std::string> there, ReadFresh(name));
  if (there) return false;
  if (!linked.ok()) return linked;
  return Unavailable("%s: was linked and is not there", PathOf(name).c_str());
}

Status FolderStore::Replace(const std::string& name, const std::string& bytes) {
  const std::string temporary = Temporary();
  HP_RETURN_IF_ERROR(files_->WriteFile(temporary, bytes));
  const Status renamed = files_->Rename(temporary, PathOf(name));
  if (renamed.ok()) return OkStatus();
  (void)files_->Remove(temporary).ok();
  HP_ASSIGN_OR_RETURN(const std::optional<std::string> there, ReadFresh(name));
  return there == bytes ? OkStatus() : renamed;
}

StatusOr<std::optional<std::string>> FolderStore::ReadFresh(const std::string& name) {
  HP_ASSIGN_OR_RETURN(std::optional<std::string> bytes, files_->ReadFile(PathOf(name)));
  if (bytes) return bytes;
  const std::string temporary = Temporary();
  HP_RETURN_IF_ERROR(files_->Touch(temporary));
  (void)files_->Remove(temporary).ok();
  return files_->ReadFile(PathOf(name));
}

StatusOr<bool> FolderStore::CreateTable(int incarnation, const std::string& entry) {
  return CreateOnce(TableName(incarnation), entry);
}

StatusOr<std::optional<std::string>> FolderStore::ReadTable(int incarnation) {
  return ReadFresh(TableName(incarnation));
}

Status FolderStore::PutNode(const std::string& nonce, const std::string& entry) {
  return Replace(kNodePrefix + nonce, entry);
}

StatusOr<std::map<std::string, std::string>> FolderStore::ReadNodes() {
  HP_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->ListFolder(path_));
  std::map<std::string, std::string> nodes;
  for (const std::string& name : names) {
    if (!name.starts_with(kNodePrefix)) continue;
    HP_ASSIGN_OR_RETURN(std::optional<std::string> bytes, files_->ReadFile(PathOf(name)));
    if (bytes) nodes[name.substr(std::string_view(kNodePrefix).size())] = *std::move(bytes);
  }
  return nodes;
}

Status FolderStore::RemoveNode(const std::string& nonce) {
  // A process that was killed may have left a file that it had not renamed yet.
  HP_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->ListFolder(path_));
  for (const std::string& name : names) {
    if (name.starts_with("tmp." + nonce + ".")) HP_RETURN_IF_ERROR(files_->Remove(PathOf(name)));
  }
  return files_->Remove(PathOf(kNodePrefix + nonce));
}

Status FolderStore::LookAtLease(int incarnation) {
  if (incarnation != lease_incarnation_) {
    lease_incarnation_ = incarnation;
    lease_number_ = 0;
  }
  while (true) {
    HP_ASSIGN_OR_RETURN(const std::optional<std::string> next, ReadFresh(LeaseName(incarnation, lease_number_ + 1)));
    if (!next) break;
    ++lease_number_;
    lease_ = *next;
    lease_changed_ns_ = clock_->NowNs();
  }
  if (lease_number_ == 0) return OkStatus();
  HP_ASSIGN_OR_RETURN(const std::optional<std::string> now,
                      files_->ReadFile(PathOf(LeaseName(incarnation, lease_number_))));
  if (!now || *now == lease_) return OkStatus();
  lease_ = *now;
  lease_changed_ns_ = clock_->NowNs();
  return OkStatus();
}

StatusOr<bool> FolderStore::HoldLease(int incarnation, const std::string& holder) {
  const std::string mine = holder + Format(" %d", ++renewals_);
  HP_RETURN_IF_ERROR(LookAtLease(incarnation));
  if (lease_number_ > 0 && lease_.starts_with(holder + " ")) {
    HP_RETURN_IF_ERROR(Replace(LeaseName(incarnation, lease_number_), mine));
    return true;
  }
  if (lease_number_ > 0 && clock_->NowNs() - lease_changed_ns_ < kLeaseNs) return false;
  return CreateOnce(LeaseName(incarnation, lease_number_ + 1), mine);
}

}  // namespace hp
