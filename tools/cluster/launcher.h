#pragma once

#include "hp/status.h"
#include "scheduler/plan/routing_table.h"
#include "tools/cluster/agent_set.h"
#include "tools/cluster/job_output.h"

#include "run_folder/run_files.h"
#include "run_folder/run_folder.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// Instead of the path of a snapshot: what `hpnode --resume` takes for the newest one that any node has.
constexpr char kFromLatest[] = "latest";

struct LaunchOptions {
  RunFiles files;
  std::string folder;                   ///< of the run, absolute
  bool planned = false;                 ///< the table is our own
  bool choose_ports = false;            ///< agents say which ports are free, instead of the table's
  AgentSetOptions agents;               ///< without `hello`
  std::string working_folder;           ///< of the nodes, where a host has it
  std::string token;                    ///< text of the job's token; empty: none
  std::string resume;                   ///< kFromLatest, or a file of this host, absolute; empty: none
  std::vector<std::string> weights;     ///< files of this host, absolute
  std::vector<std::string> node_flags;  ///< for hpnode
  std::vector<std::string> spares;      ///< hosts
  std::vector<std::string> excluded;    ///< hosts of the table that spares take the place of at once
  int max_restarts = 0;
  bool stage_data = false;
};

/// The hosts of a table, each once, in the order of their first nodes.
std::vector<std::string> HostsOfTable(const RoutingTableConfig& table);
/// The flags that a node is started with, but for the token's.
std::vector<std::string> NodeArguments(const LaunchOptions& options, const std::string& node);

/// A job from its start to its end, restarts included: `hplaunch`. README.md beside this has the states. One thread.
class Launcher {
 public:
  explicit Launcher(LaunchOptions options);
  ~Launcher();

  /// Blocks until all nodes of the job are dead. @return ok: all ended well; else the first failure, with the status
  /// of that node: kUnavailable where a signal ended it, or its host is lost.
  Status Run();

 private:
  struct Node {
    std::string name, host;
    int id = -1;  // of its process; -1: not started
    bool running = false;
    bool lost = false;  // its host is: it never reports its end
    int exit = -1;
  };

  // One incarnation, in order; launcher_start.cc.
  Status Prepare();
  Status ChoosePorts();
  Status WriteFiles();
  Status PutResumed();
  Status CheckData();
  Status Stage(const std::vector<std::string>& hosts);
  StatusOr<std::map<std::string, Answered>> AskForData();
  void StartNodes();

  // Whether snapshots outlive the host that writes them; launcher_copies.cc.
  Status CheckCopies();
  StatusOr<std::vector<std::string>> ReachableSpares();
  StatusOr<std::vector<std::string>> HostsWithoutSnapshots(const std::vector<std::string>& hosts);
  Status NotShared(const std::vector<std::string>& without) const;

  Status RunOnce();
  Status Watch();
  void OnOutput(int id, const std::string& line);
  void OnExit(int id, const ProcessExit& exit);
  void OnLost(const std::string& host, const Status& why);
  void OnSignal(int signal);
  void OnTick();
  void SignalAll(int signal);
  bool AnyRuns() const;
  void Fail(int node, Status why);
  void TellFailure() const;

  // Between two incarnations; launcher_restart.cc.
  Status PrepareRestart();
  Status AwaitOldNodes();
  void ReplaceHosts();
  void ReplaceHost(const std::string& host);
  Status ChooseResumed();

  LaunchOptions options_;
  const std::string first_resume_;  // what the user said to begin with
  std::unique_ptr<RunFolder> folder_;
  JobOutput output_;
  std::unique_ptr<AgentSet> agents_;
  std::vector<std::string> hosts_;
  std::vector<Node> nodes_;
  std::map<int, int> node_of_id_;
  std::map<std::string, int> failures_of_host_;
  bool started_ = false, stop_asked_ = false;
  /// Manifests of the snapshots that nodes began, in their order. One that exists completes its snapshot.
  std::vector<std::string> snapshots_;
  int incarnation_ = 0;
  int ticks_since_failure_ = 0;
  int first_failed_ = -1;  // node
  Status failure_;         // of this incarnation
};

}  // namespace hp
