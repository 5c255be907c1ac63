#include "commands/node_run.h"

#include "base/format.h"
#include "base/host.h"
#include "base/log_writer.h"
#include "base/version.h"
#include "checkpoint/summed_file.h"
#include "proto/text.h"

#include "glog/logging.h"
#include "run_folder/run_files.h"
#include <unistd.h>

#include <cinttypes>
#include <filesystem>
#include <utility>

namespace hp {
namespace {

constexpr size_t kMostReason = 500;  // bytes of a line of record.txt that say why a process ended

/// "hpnode 1.2.0, host a, process 77, program 0123456789abcdef"
std::string DescribeProcess() {
  std::string text =
      Format("hpnode %s, host %s, process %d", Version(), HostName().c_str(), static_cast<int>(getpid()));
  if (const auto sum = SumFile("/proc/self/exe"); sum.ok()) text += Format(", program %016" PRIx64, sum->xxh64);
  return text;
}

/// The same error with what to do about it.
Status Advise(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) {
    return InvalidArgument("--run_folder: %s; expected a folder that this user can make and write on this host",
                           status.message().c_str());
  }
  if (status.code() == StatusCode::kResourceExhausted) {
    return ResourceExhausted("--run_folder: %s; make room there, or name a folder on another disk",
                             status.message().c_str());
  }
  return status.Prepend("--run_folder");
}

Status WriteFiles(const RoutingTable& table, const std::string& folder) {
  HP_ASSIGN_OR_RETURN(RunFiles files, ReadRunFiles(table.config(), table.solver_path(), folder));
  files.comment = "as the latest start in this folder uses it";
  return Advise(WriteRunFiles(files, folder, "hpnode").status());
}

}  // namespace

RunStart StartOfRun(const RoutingTable& table, const RunStart& handed_out, const JobEnvironment& job) {
  RunStart start = handed_out;
  start.table = table.hash();
  if (!start.run.empty()) return start;
  if (job.is_task() && !job.run.empty()) {
    start.run = job.run;
    start.number = job.restarts;
  } else {
    start.run = Format("job \"%s\", table %016" PRIx64, Printable(table.job()).c_str(), table.hash());
  }
  return start;
}

RunName NameOfRun(const RunStart& handed_out, const JobEnvironment& job, const NodeRun& run) {
  if (!handed_out.run.empty()) return {handed_out.run, handed_out.number > 1};
  const bool lasts = job.launcher != "Open MPI" && job.launcher != "PMIx";
  if (job.is_task() && lasts && !job.run.empty()) return {job.run, job.restarts > 0};
  if (!run.path().empty()) return {"run folder " + run.path(), run.incarnation() > 1};
  return {};
}

void NodeRun::Begin(const std::string& folder) {
  if (folder.empty()) return;
  path_ = std::filesystem::absolute(folder).lexically_normal().string();
  log_ = new NodeLog;
  CopyLogTo(log_->writer());
}

Status NodeRun::Enter(const RunStart& start, const RoutingTable& table, const std::string& node, bool first) {
  if (path_.empty()) return OkStatus();
  StatusOr<std::unique_ptr<SharedRunFolder>> entered = SharedRunFolder::Enter(path_, start, node);
  if (!entered.ok()) return Advise(entered.status());
  folder_ = *std::move(entered);
  log_->Open(folder_->log_path());
  entered_ = true;
  LOG(INFO) << "run folder " << path_ << ": incarnation " << folder_->incarnation() << " of " << start.run;
  HP_RETURN_IF_ERROR(Advise(folder_->Record("begins: " + DescribeProcess())));
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter solver, ReadSolver(table.solver_path()));
  HP_ASSIGN_OR_RETURN(snapshot_prefix_, RunSnapshotPrefix(solver, table.solver_path(), path_));
  if (first) HP_RETURN_IF_ERROR(WriteFiles(table, path_));
  return OkStatus();
}

void NodeRun::End(const Status& status) {
  if (!entered_.exchange(false)) return;
  std::string text = Format("ended with exit status %d", ExitStatus(status));
  if (!status.ok()) text += ": " + Printable(status.message(), kMostReason);
  log_->Then([this, text] {
    if (const Status written = folder_->Record(text); !written.ok()) LOG(WARNING) << written.message();
  });
}

}  // namespace hp
