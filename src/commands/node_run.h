#pragma once

#include "base/job_environment.h"
#include "hp/status.h"
#include "node/node.h"
#include "scheduler/plan/routing_table.h"

#include "run_folder/node_log.h"
#include "run_folder/shared_run_folder.h"

#include <atomic>
#include <memory>
#include <string>

namespace hp {

/// Which run and start a node is of: what handed its table out says, or else its scheduler, if it is a task of one, or
/// else the table: its `job` and its hash.
/// @param table as given, before nodes choose ports. @param handed_out FoundTable::start.
RunStart StartOfRun(const RoutingTable& table, const RunStart& handed_out, const JobEnvironment& job);

class NodeRun;

/// What the snapshots of a run are known by: what handed its table out, or its scheduler's job where that stays the
/// same when it is started again (mpirun's does not), or else its run folder; nothing: none of these.
RunName NameOfRun(const RunStart& handed_out, const JobEnvironment& job, const NodeRun& run);

/// What `hpnode --run_folder` leaves of its process: the log, a line in record.txt when it begins and when it ends, and
/// of the first node the table, the solver and the net. Lives as long as the process.
class NodeRun {
 public:
  /// The table's nodes in one process.
  static constexpr const char* kAllNodes = SharedRunFolder::kAllNodes;

  /// From now on the log is kept, for a file there. After StartLogWriter; once.
  /// @param folder empty: none, and this object does nothing.
  void Begin(const std::string& folder);
  /// Goes into the folder, or makes it. Blocks for the disk. After Begin; once.
  /// @param table with the ports that nodes listen on. @param node its name, or kAllNodes. @param first whether it is
  /// the one that writes table, solver and net.
  /// @return those of SharedRunFolder::Enter and WriteRunFiles, with what to do; those of ReadRunFiles.
  Status Enter(const RunStart& start, const RoutingTable& table, const std::string& node, bool first);
  /// Its absolute path; empty: none.
  const std::string& path() const { return path_; }
  /// Which one of the folder this start is, behind Enter.
  int incarnation() const { return folder_ ? folder_->incarnation() : 0; }
  /// Where snapshots go instead of where the solver says; empty: there.
  const std::string& snapshot_prefix() const { return snapshot_prefix_; }
  /// Has record.txt say how the process ends; FlushLog waits for it. The first call counts. Any thread.
  void End(const Status& status);

 private:
  std::string path_;
  NodeLog* log_ = nullptr;  // never destroyed: threads log until the process ends
  std::unique_ptr<SharedRunFolder> folder_;
  std::string snapshot_prefix_;
  std::atomic<bool> entered_ = false;
};

}  // namespace hp
