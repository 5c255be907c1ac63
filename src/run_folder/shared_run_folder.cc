// Byte 0 of run.lock is the gate: who holds it reads and writes the file, and adds to record.txt (on NFS the system's
// appending would not be enough). Each live node holds a byte of its own, which its name and incarnation choose, so the
// others see who lives. A shared lock on record.txt keeps hplaunch out, whose RunFolder takes it alone.
#include "run_folder/shared_run_folder.h"

#include "base/folder.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/input_file.h"

#include "run_folder/record.h"
#include "run_folder/run_state.h"
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr int64_t kGate = 0, kFirstNode = 1;

int64_t ByteOf(const std::string& node, int incarnation) {
  return kFirstNode + static_cast<int64_t>(HashBytes(node + '\n' + std::to_string(incarnation)) >> 2);
}

Status DiskError(const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return Status(full ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument,
                path + ": cannot be written: " + std::strerror(error));
}

/// Holds the gate for a moment.
class HeldGate {
 public:
  explicit HeldGate(int fd) : locks_(fd), error_(locks_.Await(kGate)) {}
  ~HeldGate() {
    if (error_ == 0) locks_.Release(kGate);
  }
  HeldGate(const HeldGate&) = delete;
  int error() const { return error_; }

 private:
  const ByteLocks locks_;
  const int error_;
};

StatusOr<int> OpenShared(const std::string& path, int flags) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return DiskError(path, errno);
  return fd;
}

/// "incarnation 2 of Slurm job 12 runs there (node conv0 on host a, process 77)"
std::string Holder(const RunState& state, const ByteLocks& locks) {
  std::string who = "a node of an incarnation before that";
  for (const auto& [node, where] : state.members) {
    if (!locks.IsTaken(ByteOf(node, state.incarnation))) continue;
    who = "node " + node + " on " + where;
    break;
  }
  return Format("incarnation %d of %s runs there (%s)", state.incarnation,
                state.start.run.empty() ? "an unknown run" : state.start.run.c_str(), who.c_str());
}

Status OtherRun(const std::string& path, const RunState& state, const ByteLocks& locks) {
  return FailedPrecondition("%s: %s; end that one, or give each run a folder of its own", path.c_str(),
                            Holder(state, locks).c_str());
}

}  // namespace

StatusOr<std::unique_ptr<SharedRunFolder>> SharedRunFolder::Enter(const std::string& path, const RunStart& start,
                                                                  const std::string& node) {
  HP_RETURN_IF_ERROR(CheckIsForRuns(path));
  HP_RETURN_IF_ERROR(MakeFolder(path + "/logs"));
  HP_RETURN_IF_ERROR(MakeFolder(path + "/snapshots"));
  HP_ASSIGN_OR_RETURN(const int record, OpenShared(path + "/record.txt", O_APPEND));
  StatusOr<int> lock = OpenShared(path + "/run.lock", 0);
  if (!lock.ok()) {
    close(record);
    return lock.status();
  }
  std::unique_ptr<SharedRunFolder> folder(new SharedRunFolder(path, node, record, *lock));
  const HeldGate gate(*lock);
  if (gate.error() != 0) return NoLocks(path + "/run.lock", gate.error());
  HP_ASSIGN_OR_RETURN(const bool locked, LockRecord(record, LOCK_SH, path));
  if (!locked) {
    return FailedPrecondition(
        "%s: an hplaunch runs there; its record.txt says which; give each run a folder of its own", path.c_str());
  }
  HP_RETURN_IF_ERROR(folder->Join(start));
  return folder;
}

SharedRunFolder::~SharedRunFolder() {
  close(lock_);
  close(record_);
}

Status SharedRunFolder::Join(const RunStart& start) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path_ + "/run.lock"));
  const RunState state = ParseState(text);
  const ByteLocks locks(lock_);
  if (!locks.IsAnyTaken(kFirstNode)) return Begin(start);
  if (start.run != state.start.run) return OtherRun(path_, state, locks);
  if (start.number > state.start.number) return Begin(start);
  if (start.number < state.start.number || start.table != state.start.table) return OtherRun(path_, state, locks);
  if (locks.IsTaken(ByteOf(node_, state.incarnation))) return OtherRun(path_, state, locks);
  // One process of all nodes is a job by itself.
  if (node_ == kAllNodes || locks.IsTaken(ByteOf(kAllNodes, state.incarnation))) return OtherRun(path_, state, locks);
  if (state.Has(node_)) return Begin(start);  // it ended, and is the first one that is back
  incarnation_ = state.incarnation;
  const std::string member =
      MemberText(node_, Format("host %s, process %d", HostName().c_str(), static_cast<int>(getpid())));
  const size_t whole = text.rfind('\n') + 1;  // behind it is what a node has not written to its end
  errno = ENOSPC;
  if (ftruncate(lock_, static_cast<off_t>(whole)) != 0 ||
      pwrite(lock_, member.data(), member.size(), static_cast<off_t>(whole)) != std::ssize(member)) {
    return DiskError(path_ + "/run.lock", errno);
  }
  if (const int error = locks.Take(ByteOf(node_, incarnation_)); error != 0) {
    return DiskError(path_ + "/run.lock", error);
  }
  return OkStatus();
}

Status SharedRunFolder::Begin(const RunStart& start) {
  HP_ASSIGN_OR_RETURN(const std::string old_text, ReadInputFile(path_ + "/run.lock"));
  HP_ASSIGN_OR_RETURN(const std::string record, ReadInputFile(path_ + "/record.txt"));
  const RunState old = ParseState(old_text);
  const ByteLocks locks(lock_);
  for (const auto& [node, where] : old.members) {
    const std::string its = Format("%s, incarnation %d: ", node.c_str(), old.incarnation);
    if (locks.IsTaken(ByteOf(node, old.incarnation)) || record.find(" " + its + "ended") != std::string::npos) continue;
    HP_RETURN_IF_ERROR(AddLine(its + "ended without reporting a status: killed, or its host was lost"));
  }
  RunState state;
  state.start = start;
  state.incarnation = incarnation_ = NextIncarnation(path_);
  state.members.emplace_back(node_, Format("host %s, process %d", HostName().c_str(), static_cast<int>(getpid())));
  HP_RETURN_IF_ERROR(AddLine(IncarnationText(incarnation_, start.run)));
  const std::string text = StateText(state);
  errno = ENOSPC;  // of a write in part
  if (ftruncate(lock_, 0) != 0 || pwrite(lock_, text.data(), text.size(), 0) != std::ssize(text)) {
    return DiskError(path_ + "/run.lock", errno);
  }
  if (const int error = locks.Take(ByteOf(node_, incarnation_)); error != 0) {
    return DiskError(path_ + "/run.lock", error);
  }
  RemoveOldLogs(path_, incarnation_);
  return OkStatus();
}

std::string SharedRunFolder::log_path() const { return LogPathOf(path_, node_, incarnation_); }

Status SharedRunFolder::Record(const std::string& text) {
  const HeldGate gate(lock_);  // without it the line is written all the same
  return AddLine(Format("%s, incarnation %d: ", node_.c_str(), incarnation_) + text);
}

Status SharedRunFolder::AddLine(const std::string& line) {
  const int error = AddToRecord(record_, line);
  return error == 0 ? OkStatus() : DiskError(path_ + "/record.txt", error);
}

}  // namespace hp
