// Starts all nodes of a job, on this host and over ssh on others, and ends when they have ended.
#include "base/host.h"
#include "base/input_file.h"
#include "base/job_token.h"
#include "base/log_writer.h"
#include "base/words.h"
#include "checkpoint/snapshot.h"
#include "commands/plan_table.h"
#include "commands/table_options.h"
#include "proto/text.h"
#include "scheduler/plan/table_maker.h"
#include "tools/cluster/agent.h"
#include "tools/cluster/allocation.h"
#include "tools/cluster/launcher.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

DEFINE_string(routing, "", "The job's routing table (hproute writes one).");
DEFINE_string(solver, "", "Instead of a table: the solver of a job for which one is planned, as hproute does.");
DEFINE_string(hosts, "",
              "With --solver: a hosts.prototxt (src/proto/planning.proto), or names of hosts like this one, "
              "separated by commas.");
DEFINE_string(run_dir, "",
              "Folder of the run, the same on all hosts: table, solver and net in use, logs, snapshots. Empty: "
              "runs/RUN_ID beside the solver, RUN_ID being the time and four digits.");
DEFINE_bool(free_ports, false,
            "With --routing: nodes listen on free ports of their hosts instead of the table's, as with --solver. For "
            "clients, the run folder's table has them.");
DEFINE_string(token_file, "", "The job's token (hproute --new_token). Other hosts get it over ssh, in memory alone.");
DEFINE_string(resume, "",
              "Resume from this .solverstate or .solverstate.h5 of this host, or from the parts of a snapshot that "
              "Caffe's files, of which this is the name, were not made of yet; or latest: from the newest complete "
              "snapshot of this training that any host has, or from the beginning if there is none.");
DEFINE_string(
    weights, "",
    "Take initial weights from this .caffemodel of this host, or several separated by commas; without it those "
    "that the solver's weights name.");
DEFINE_int32(max_restarts, 0,
             "How often to start the job again, from its newest complete snapshot, when a node was lost (exit 4).");
DEFINE_string(
    spares, "",
    "Hosts, separated by commas, that take the place of lost ones at a restart. A host also is replaced when "
    "nodes of it have failed twice. Where hosts and spares do not all share the folder of snapshots, the table "
    "needs snapshot_copies: 2.");
DEFINE_string(
    exclude, "",
    "Hosts to leave out, separated by commas: those that hpctl status or a log calls slow. Of a table of yours, "
    "--spares take their place.");
DEFINE_int64(
    max_bad_records, 0,
    "How many records may be missing, damaged or of another shape: of the data that is read for a plan, and of "
    "each node (hpnode --max_bad_records).");
DEFINE_bool(stage_data, false, "Copy databases and mean files of this host to hosts that do not have them.");
DEFINE_bool(dry_run, false, "Say what would be started where, and start nothing.");
DEFINE_string(ssh, "ssh", "How to reach other hosts: a command, such as \"ssh -F FILE\" or \"ssh -p 2222\".");
DEFINE_string(remote_bin, "", "Folder of the programs on other hosts; empty: as on this one.");
DEFINE_string(bundle, "",
              "Tarball of the programs (tools/dev/bundle.sh), for hosts that do not have them: it is unpacked into "
              "~/.cache/hpnode/bundles there, once.");
DEFINE_bool(agent, false, "What hplaunch starts on each host: takes orders on standard input.");

namespace hp {
namespace {

namespace fs = std::filesystem;

/// Of the flags of a table those that hplaunch has.
TableOptions& Options() {
  static TableOptions options;
  return options;
}

constexpr char kUsage[] =
    R"(Starts all nodes of a job and shows what they say; ends all when one fails.

  hplaunch --solver=FILE --hosts=HOST,...|HOSTS.prototxt [FLAGS] [-- FLAGS OF hpnode]
  hplaunch --routing=TABLE [FLAGS] [-- FLAGS OF hpnode]

Examples:
  hplaunch --solver=lenet_solver.prototxt --hosts=a,b,c
  hplaunch --routing=table.prototxt --token_file=job.token --max_restarts=3 --spares=d
  hplaunch --routing=table.prototxt --bundle=hpnode.tar.gz --stage_data -- --reader_threads=2
  hplaunch --routing=table.prototxt --dry_run
Nodes on this host are plain processes; other hosts need ssh without a password, and this program or --bundle.
SIGINT, SIGTERM, SIGUSR1 and SIGHUP are passed on to the nodes: hpnode stops with a snapshot, or (SIGHUP) takes one.
Exit status: that of the first node that failed; 4 also for a host that is lost or can't be reached, 2 for one whose
key, version, programs, files or data are not as they should be.
)";

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, separator);) {
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

/// Hosts of a flag; an IPv6 address without the brackets that it may stand in.
std::vector<std::string> HostsOfFlag(const std::string& text) {
  std::vector<std::string> hosts = SplitAt(text, ',');
  for (std::string& host : hosts) host = BareHost(host);
  return hosts;
}

/// Of hplaunch and all other programs. @return kFailedPrecondition: /proc, which tells, is not there.
StatusOr<std::string> ProgramFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return FailedPrecondition("/proc/self/exe: %s; is /proc mounted?", error.message().c_str());
  return program.parent_path().string();
}

std::string AbsoluteOrEmpty(const std::string& path) {
  return path.empty() ? "" : fs::absolute(path).lexically_normal().string();
}

Status CheckCommandLine(const std::vector<std::string>& node_flags) {
  if (FLAGS_routing.empty() == FLAGS_solver.empty()) {
    return InvalidArgument("expected either --routing=TABLE or --solver=FILE with --hosts (hplaunch --help)");
  }
  if (FLAGS_solver.empty() != FLAGS_hosts.empty()) {
    return InvalidArgument("--solver=FILE and --hosts=HOST,... go together (hplaunch --help)");
  }
  for (const char* flag : {"profile", "sample", "precision", "wire_precision"}) {
    if (FLAGS_routing.empty() || gflags::GetCommandLineFlagInfoOrDie(flag).is_default) continue;
    return InvalidArgument("--%s goes with --solver: it is for a table that is planned", flag);
  }
  HP_RETURN_IF_ERROR(CheckMaxBadRecords(FLAGS_max_bad_records));
  if (SplitAt(FLAGS_ssh, ' ').empty()) return InvalidArgument("--ssh is empty; expected a command");
  if (!FLAGS_bundle.empty() && !FLAGS_remote_bin.empty()) {
    return InvalidArgument("--bundle brings the programs, --remote_bin says where they are: give one of them");
  }
  for (const std::string& flag : node_flags) {
    if (!flag.starts_with("--")) {
      return InvalidArgument("\"%s\" is no flag; expected those of hpnode behind --", flag.c_str());
    }
    for (const char* own : {"routing", "node", "role", "all", "resume", "weights", "max_bad_records", "token_file"}) {
      if (flag.substr(2, flag.find('=') - 2) != own) continue;
      return InvalidArgument("%s stands behind --; hplaunch sets --%s of hpnode itself", flag.c_str(), own);
    }
  }
  return CheckRestarts(FLAGS_max_restarts);
}

/// Whether ssh takes it for a host.
Status CheckHost(const std::string& host) {
  if (!host.starts_with("-")) return OkStatus();
  return InvalidArgument("host \"%s\": expected a name or an address", host.c_str());
}

/// The table as given, or a planned one. @param[out] solver,comment of it.
StatusOr<RoutingTableConfig> TableOf(std::string* solver, std::string* comment) {
  if (!FLAGS_routing.empty()) {
    HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Load(FLAGS_routing));
    *solver = table.solver_path();
    *comment = "Routing table of hpnode: " + FLAGS_routing + ", as hplaunch uses it.";
    return table.config();
  }
  PlanFlags flags;
  flags.solver = *solver = FLAGS_solver;
  flags.solver_in_table = "solver.prototxt";
  flags.hosts = FLAGS_hosts;
  flags.profile = Options().profile;
  flags.sample = Options().sample;
  HP_ASSIGN_OR_RETURN(flags.precision, PrecisionOf(Options().precision));
  HP_ASSIGN_OR_RETURN(flags.wire_precision, WirePrecisionOf(Options()));
  flags.exclude = HostsOfFlag(FLAGS_exclude);
  flags.inputs.max_bad_records = FLAGS_max_bad_records;
  HP_ASSIGN_OR_RETURN(const PlannedTable planned, PlanTable(flags));
  std::cout << planned.reasons << std::flush;
  *comment = "Routing table of hpnode, chosen by hplaunch.\n\n" + planned.reasons;
  return planned.config;
}

StatusOr<std::string> ReadToken() {
  if (FLAGS_token_file.empty()) return std::string();
  HP_ASSIGN_OR_RETURN(const JobKeys keys, ReadJobKeys(FLAGS_token_file));
  if (keys.node) return ReadInputFile(FLAGS_token_file);
  return InvalidArgument("%s is a read key; nodes need the job's token", FLAGS_token_file.c_str());
}

StatusOr<std::string> ResumeOf(const LaunchOptions& options) {
  if (FLAGS_resume != kFromLatest) {
    const std::string path = AbsoluteOrEmpty(FLAGS_resume);
    if (!path.empty()) HP_RETURN_IF_ERROR(FilesOfSnapshot(path).status().Prepend("--resume"));
    return path;
  }
  const std::string& prefix = options.files.solver.snapshot_prefix();
  if (!FLAGS_run_dir.empty() || !prefix.starts_with(options.folder + "/")) return FLAGS_resume;
  return InvalidArgument(
      "--resume=latest: the snapshots of a run lie in its folder, since the solver's snapshot_prefix is not absolute; "
      "name the folder of the run that is to go on: --run_dir=FOLDER");
}

/// Hosts of a given table that are to be left out; a planned one has none of them.
Status Exclude(LaunchOptions* options) {
  const std::vector<std::string> excluded = HostsOfFlag(FLAGS_exclude);
  const auto is_excluded = [&excluded](const std::string& host) {
    return std::find(excluded.begin(), excluded.end(), host) != excluded.end();
  };
  std::erase_if(options->spares, is_excluded);
  if (FLAGS_routing.empty()) return OkStatus();
  const std::vector<std::string> hosts = HostsOfTable(options->files.table);
  for (const std::string& host : excluded) {
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) {
      options->excluded.push_back(host);
      continue;
    }
    return InvalidArgument("--exclude: the table has no node on host \"%s\"; its hosts: %s", host.c_str(),
                           Join(hosts).c_str());
  }
  if (options->excluded.size() <= options->spares.size()) return OkStatus();
  return InvalidArgument(
      "--exclude leaves out %zu host(s) of the table, and --spares has %zu to take their place: name more, or make a "
      "table without them (hproute --exclude)",
      options->excluded.size(), options->spares.size());
}

StatusOr<LaunchOptions> OptionsOf(const std::vector<std::string>& node_flags) {
  LaunchOptions options;
  std::string solver, comment;
  HP_ASSIGN_OR_RETURN(const RoutingTableConfig table, TableOf(&solver, &comment));
  options.planned = FLAGS_routing.empty();
  options.choose_ports = options.planned || FLAGS_free_ports;
  const fs::path run =
      FLAGS_run_dir.empty() ? fs::path(solver).parent_path() / "runs" / NewRunId() : fs::path(FLAGS_run_dir);
  options.folder = AbsoluteOrEmpty(run.string());
  HP_ASSIGN_OR_RETURN(options.files, ReadRunFiles(table, solver, options.folder));
  options.files.comment = comment;
  options.agents.ssh = SplitAt(FLAGS_ssh, ' ');
  HP_ASSIGN_OR_RETURN(const std::string programs, ProgramFolder());
  options.agents.local_program = programs + "/hplaunch";
  options.agents.remote_program = (FLAGS_remote_bin.empty() ? programs : FLAGS_remote_bin) + "/hplaunch";
  if (!FLAGS_bundle.empty()) {
    HP_ASSIGN_OR_RETURN(options.agents.bundle, ReadInputFile(FLAGS_bundle));
  }
  options.working_folder = fs::current_path().string();
  HP_ASSIGN_OR_RETURN(options.token, ReadToken());
  HP_ASSIGN_OR_RETURN(options.resume, ResumeOf(options));
  options.weights = FLAGS_weights.empty() ? WeightsOf(options.files.solver) : SplitAt(FLAGS_weights, ',');
  for (std::string& file : options.weights) file = AbsoluteOrEmpty(file);
  for (const std::string& host : HostsOfTable(table)) HP_RETURN_IF_ERROR(CheckHost(host));
  options.node_flags = node_flags;
  if (FLAGS_max_bad_records > 0) {
    options.node_flags.push_back("--max_bad_records=" + std::to_string(FLAGS_max_bad_records));
  }
  options.spares = HostsOfFlag(FLAGS_spares);
  for (const std::string& host : options.spares) HP_RETURN_IF_ERROR(CheckHost(host));
  HP_RETURN_IF_ERROR(Exclude(&options));
  options.max_restarts = FLAGS_max_restarts;
  options.stage_data = FLAGS_stage_data;
  if (options.stage_data && !options.files.lists.empty()) {
    return InvalidArgument(
        "--stage_data copies databases and mean files, not the files that a list names: have %s and its files on each "
        "host, or make a database of them (convert_imageset)",
        options.files.lists[0].c_str());
  }
  return options;
}

Status TellPlan(const LaunchOptions& options) {
  std::cout << "run folder: " << options.folder << "\n";
  for (const std::string& host : HostsOfTable(options.files.table)) {
    const bool local = IsThisHost(host);
    const AgentCommand command = CommandOfAgent(local ? std::vector<std::string>() : options.agents.ssh, host,
                                                local ? options.agents.local_program : options.agents.remote_program,
                                                local ? "" : options.agents.bundle);
    std::cout << "host " << host << ":\n  agent:";
    for (const std::string& word : command.words) std::cout << " " << word;
    std::cout << "\n  files: table.prototxt, solver.prototxt, net.prototxt in the run folder\n";
    for (const NodeConfig& node : options.files.table.node()) {
      if (node.host() != host) continue;
      std::cout << "  " << node.name() << ": hpnode";
      for (const std::string& word : NodeArguments(options, node.name())) std::cout << " " << word;
      if (!options.token.empty()) std::cout << " --token_file=/proc/self/fd/3";
      std::cout << (options.choose_ports ? ", at a free port of its host" : ", port " + std::to_string(node.port()))
                << "\n";
    }
  }
  std::vector<std::string> data = options.files.data;
  data.insert(data.end(), options.files.lists.begin(), options.files.lists.end());
  std::cout << "data: " << Join(data) << "\n";
  std::cout << "snapshots: " << options.files.solver.snapshot_prefix() << "_iter_N\n" << std::flush;
  return OkStatus();
}

Status Main(const std::vector<std::string>& arguments) {
  if (FLAGS_agent) {
    HP_ASSIGN_OR_RETURN(const std::string programs, ProgramFolder());
    return Agent(dup(STDIN_FILENO), dup(STDOUT_FILENO), programs).Run();
  }
  HP_RETURN_IF_ERROR(CheckCommandLine(arguments));
  HP_ASSIGN_OR_RETURN(LaunchOptions options, OptionsOf(arguments));
  if (FLAGS_dry_run) return TellPlan(options);
  StartLogWriter();
  Status status;
  {
    Launcher launcher(std::move(options));
    status = launcher.Run();
  }
  FlushLog(std::chrono::seconds(2));
  return status;
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  constexpr size_t kManyFlags = 1000;
  hp::RegisterTableFlags(
      __FILE__, &hp::Options(),
      {{"profile", "With --solver: a file with times of the net's layers (hproute --profile)."},
       {"sample",
        "With --solver, where the data is not on this host: CHANNELS,HEIGHT,WIDTH of a sample behind its "
        "transformation, such as 3,227,227."}},
      {"profile", "sample", "precision", "wire_precision"});
  return hp::ToolMain(argc, argv, {"hplaunch", hp::kUsage, 0, kManyFlags}, hp::Main);
}
