// An owner's file has a name that nobody else writes and says nothing by being there: only the manifest makes files a
// snapshot. So whatever becomes of owners, of this node or of the disk, there is a manifest whose files are all synced,
// or none. An abandoned snapshot's files are removed when all owners have reported, so that none comes after that; what
// a job leaves that ended before is removed by the next start (Incarnation::Claim).
#include "snapshot/snapshot_completer.h"

#include "base/format.h"
#include "base/out_of_memory.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"
#include "checkpoint/snapshot_lines.h"
#include "checkpoint/snapshot_parts.h"
#include "solvers/lr_policy.h"

#include "glog/logging.h"
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <utility>

namespace hp {
namespace {

constexpr size_t kMaxShownFault = 400;

BlobUsers UsersOf(const std::vector<WholeParam>& params) {
  BlobUsers users;
  for (const WholeParam& param : params) {
    if (!param.users.empty()) users[{param.whole.layer, param.whole.blob}] = param.users;
  }
  return users;
}

}  // namespace

SnapshotCompleter::SnapshotCompleter(const std::vector<WholeParam>& params, SnapshotWriter::Options files,
                                     std::function<void()> on_room)
    : params_(params),
      files_(std::move(files)),
      on_room_(std::move(on_room)),
      owners_(PartOwners(params)),
      ending_(SnapshotEnding(ParameterBytes(params), files_.most_message_bytes)) {
  thread_ = Thread("snapshot parts", [this] { Run(); });
}

SnapshotCompleter::~SnapshotCompleter() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void SnapshotCompleter::Begin(int64_t iteration, const std::optional<LossScalingState>& loss_scaling) {
  LOG(INFO) << ModelLine(SnapshotModelPath(files_.prefix, iteration) + ending_);
  MutexLock lock(&mutex_);
  ++begun_;
  latest_ = std::max(latest_, iteration);
  Pending& pending = pending_[iteration];
  pending.loss_scaling = loss_scaling;
  for (auto& [owner, reports] : early_) {
    const auto report = reports.find(iteration);
    if (report != reports.end()) pending.parts.emplace(owner, std::move(report->second));
    reports.erase(reports.begin(), reports.upper_bound(iteration));
  }
  changed_.SignalAll();
}

bool SnapshotCompleter::HasRoom() const {
  MutexLock lock(&mutex_);
  return begun_ < kMaxBegun;
}

void SnapshotCompleter::OnPart(Rank owner, const SnapshotPartWritten& written) {
  MutexLock lock(&mutex_);
  if (std::find(owners_.begin(), owners_.end(), owner) == owners_.end()) return;
  SnapshotPartWritten kept = written;
  if (kept.fault().size() > kMaxShownFault) kept.mutable_fault()->resize(kMaxShownFault);
  const auto pending = pending_.find(kept.iteration());
  if (pending == pending_.end()) return AddEarly(owner, kept);
  pending->second.parts.emplace(owner, kept);
  changed_.SignalAll();
}

void SnapshotCompleter::AddEarly(Rank owner, const SnapshotPartWritten& written) {
  if (written.iteration() <= latest_) return;  // done
  auto& reports = early_[owner];
  reports.emplace(written.iteration(), written);
  if (reports.size() > kMaxEarly) reports.erase(std::prev(reports.end()));
}

size_t SnapshotCompleter::early_reports() const {
  MutexLock lock(&mutex_);
  size_t reports = 0;
  for (const auto& [owner, early] : early_) reports += early.size();
  return reports;
}

void SnapshotCompleter::OnVerdict(int64_t clock) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
  if (!pending_.empty()) changed_.SignalAll();
}

void SnapshotCompleter::Abort(const Status& cause) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = cause;
  changed_.SignalAll();
}

Status SnapshotCompleter::WaitUntilDone() {
  MutexLock lock(&mutex_);
  while ((!pending_.empty() || !unmerged_.empty() || busy_) && aborted_.ok()) changed_.Wait(&mutex_);
  return aborted_.ok() ? last_ : aborted_;
}

std::optional<std::pair<int64_t, SnapshotCompleter::Pending>> SnapshotCompleter::TakeReady() {
  for (auto& [iteration, pending] : pending_) {
    if (pending.parts.size() < owners_.size() || verdict_ < iteration - 1) continue;
    std::pair<int64_t, Pending> ready{iteration, std::move(pending)};
    pending_.erase(ready.first);
    return ready;
  }
  return std::nullopt;
}

void SnapshotCompleter::Run() {
  for (;;) {
    std::optional<std::pair<int64_t, Pending>> ready;
    {
      MutexLock lock(&mutex_);
      busy_ = false;
      changed_.SignalAll();
      while (!stop_ && !(ready = TakeReady()) && unmerged_.empty()) changed_.Wait(&mutex_);
      if (stop_) return;
      busy_ = true;
    }
    if (!ready) {
      MergeOne();
      continue;
    }
    const auto& [iteration, pending] = *ready;
    const Status status =
        OrOutOfMemory("completing a snapshot", [&, i = iteration, &p = pending] { return Complete(i, p); });
    if (!status.ok()) {
      GiveUp(iteration, status);
      continue;
    }
    std::set<int64_t> earlier;
    if (!std::exchange(looked_, true)) earlier = FindUnmerged();
    MutexLock lock(&mutex_);
    last_ = status;
    earlier.insert(iteration);
    earlier.merge(std::exchange(failed_, {}));  // perhaps the disk is better now
    unmerged_.merge(earlier);
    to_report_.insert(iteration);
  }
}

Status SnapshotCompleter::Complete(int64_t iteration, const Pending& pending) {
  for (const auto& [owner, written] : pending.parts) {
    if (!written.fault().empty()) {
      return InternalError("node %d (%s) has given up its part: %s", owner, files_.manifest.node(owner).name().c_str(),
                           Printable(written.fault(), kMaxShownFault).c_str());
    }
  }
  SnapshotContents contents;
  contents.prefix = files_.prefix;
  contents.iteration = iteration;
  contents.current_step = LearningRateStep(files_.solver, static_cast<int>(iteration));
  contents.manifest = files_.manifest;
  contents.before_step = files_.before_step;
  contents.incarnation = files_.incarnation.get();
  if (pending.loss_scaling) *contents.manifest.mutable_loss_scaling() = *pending.loss_scaling;
  if (files_.add_orders) files_.add_orders(iteration, &contents.manifest);
  DescribeParts(params_, &contents.manifest);
  for (size_t i = 0; i < owners_.size(); ++i) {
    const SnapshotPartWritten& written = pending.parts.at(owners_[i]);
    const std::string path = SnapshotPartPath(files_.prefix, iteration, files_.incarnation->number(), owners_[i]);
    SnapshotFile* const file = contents.manifest.mutable_part(static_cast<int>(i))->mutable_file();
    file->set_name(std::filesystem::path(path).filename().string());
    file->set_bytes(written.bytes());
    file->set_xxh64(written.xxh64());
  }
  HP_RETURN_IF_ERROR(CommitParts(contents));
  LOG(INFO) << "snapshot of iteration " << iteration << ": complete, " << owners_.size()
            << " node(s) have written their parts";
  if (files_.keep > 0) {
    PruneSnapshots(files_.prefix, files_.manifest.run(), files_.keep, files_.in_use, files_.incarnation.get());
  }
  return OkStatus();
}

void SnapshotCompleter::GiveUp(int64_t iteration, const Status& status) {
  for (const Rank owner : owners_) {
    const std::string path = SnapshotPartPath(files_.prefix, iteration, files_.incarnation->number(), owner);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) PLOG(WARNING) << "cannot remove " << path;
  }
  {
    MutexLock lock(&mutex_);
    last_ = status;
    --begun_;  // ahead of on_room_, which looks
  }
  if (status.code() == StatusCode::kFailedPrecondition) return files_.on_superseded(status);
  LOG(WARNING) << "snapshot of iteration " << iteration
               << " is given up, training does not wait for it: " << status.message();
  files_.on_written(iteration);
  on_room_();
}

std::set<int64_t> SnapshotCompleter::FindUnmerged() const {
  std::set<int64_t> found;
  for (const FoundSnapshot& snapshot : FindSnapshots(files_.prefix)) {
    const bool ours = snapshot.manifest.run().id() == files_.manifest.run().id();
    if (ours && !snapshot.manifest.part().empty()) found.insert(snapshot.manifest.iteration());
  }
  return found;
}

void SnapshotCompleter::MergeOne() {
  int64_t iteration = 0;
  {
    MutexLock lock(&mutex_);
    iteration = *unmerged_.begin();
  }
  const Status status = OrOutOfMemory("merging a snapshot", [&] {
    return MergeParts(files_.prefix, iteration, files_.train_net, UsersOf(params_), files_.incarnation.get(),
                      files_.before_step, files_.most_message_bytes);
  });
  if (status.ok()) {
    LOG(INFO) << StateLine(SnapshotStatePath(files_.prefix, iteration) + ending_);
  } else if (status.code() == StatusCode::kFailedPrecondition) {
    files_.on_superseded(status);
  } else if (status.code() != StatusCode::kNotFound) {  // that one was pruned
    LOG(WARNING) << "snapshot of iteration " << iteration
                 << ": complete, but Caffe's files were not merged from its parts: " << status;
  }
  bool report = false;
  {
    MutexLock lock(&mutex_);
    unmerged_.erase(iteration);
    report = to_report_.erase(iteration) > 0;
    if (report) --begun_;
    if (!status.ok() && status.code() != StatusCode::kNotFound) failed_.insert(iteration);
  }
  if (report) files_.on_written(iteration);
  on_room_();
}

}  // namespace hp
