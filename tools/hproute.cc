// Writes a routing table, or lists every fault of one.
#include "base/job_token.h"
#include "base/pending_file.h"
#include "base/words.h"
#include "commands/check_table.h"
#include "commands/job_hosts.h"
#include "commands/make_table.h"
#include "commands/plan_table.h"
#include "commands/put_table.h"
#include "commands/simulate.h"
#include "commands/table_options.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_maker.h"
#include "scheduler/plan/table_places.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>

#include <iostream>

DEFINE_string(solver, "", "Caffe solver file of the job.");
DEFINE_int32(take, 1,
             "With --plan=auto: which of the best tables, by speed; 1: the best, 2: the first of the next best.");
DEFINE_string(
    hosts, "localhost",
    "Where a table is chosen or simulated: a hosts.prototxt (src/proto/planning.proto), or hosts that are like this "
    "one. Else: "
    "Hosts of the nodes, conv nodes first, then FC nodes, then parameter servers. A host may be listed several times; "
    "if there are fewer hosts than nodes, they are reused in order. HOST/cuda:0-3: a node on each of these GPUs. "
    "Or where a scheduler's tasks run, each of which is the node of its index: slurm (this allocation), "
    "hostfile:FILE (mpirun's), kubernetes:JOB.SERVICE (an indexed Job), ranks (MASTER_ADDR, MASTER_PORT); slurm/cuda: "
    "each on the "
    "GPU that its task is given.");
DEFINE_int32(port, 29500, "Port of the first node of each host; its other nodes use the following ports.");
DEFINE_string(out, "", "Table to write: a file, or for nodes that ask dir:///shared/path or redis://HOST:PORT/RUN_ID.");
DEFINE_string(run_id, "", "With --out=dir:// or redis://: id of the run; empty: the scheduler's.");
DEFINE_bool(check, false, "Check the given table: list all its faults, or what each node runs, holds and sends.");
DEFINE_bool(
    simulate, false,
    "Simulate some iterations of the given table, on --hosts=FILE.prototxt or on hosts like this one: images/s, "
    "what nodes wait for, how busy links are.");
DEFINE_string(trace, "", "With --simulate: write all that happens to this file, for ui.perfetto.dev.");
DEFINE_string(new_token, "",
              "Write a new job token to this file, readable by you alone; hpnode --token_file reads it.");
DEFINE_string(token_file, "", "With --read_key, or --out=dir:// or redis://: the job's token.");
DEFINE_string(read_key, "", "Write to this file what a reader of the job's weights needs, and no node can use.");
DEFINE_int64(memory_mb, 0,
             "With --check: memory that each host has for all of its nodes, in MiB; 0: all that it has if it is this "
             "host, else what an address space can hold.");
DEFINE_int64(max_bad_records, 0,
             "How many records may be missing, damaged or of another shape, as hpnode's flag, where data is read: "
             "--check, --profile, and a table that is chosen or simulated.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace hp {
namespace {

constexpr char kUsage[] =
    R"(Writes a routing table (which node runs which layers, and where) or a job token, or checks a table.

  hproute --solver=FILE [--plan=auto] [--hosts=HOSTS.prototxt] [--out=TABLE]
  hproute --solver=FILE --profile=OUT
  hproute --solver=FILE --conv=N --fc=K --hosts=HOST,... --out=TABLE [FLAGS]
  hproute --check TABLE [--sample=C,H,W]
  hproute --simulate TABLE [--hosts=HOSTS.prototxt] [--profile=FILE] [--trace=OUT.json]
  hproute --new_token=FILE
  hproute --token_file=FILE --read_key=FILE

Examples:
  hproute --solver=lenet_solver.prototxt --hosts=hosts.prototxt --out=table.prototxt
  hproute --solver=lenet_solver.prototxt --profile=lenet.profile
  hproute --solver=lenet_solver.prototxt --plan=auto --profile=lenet.profile --hosts=a,b,c --out=table.prototxt
  hproute --solver=lenet_solver.prototxt --conv=2 --fc=1 --hosts=a,b,c --out=table.prototxt
  hproute --solver=lenet_solver.prototxt --conv=1 --fc=0 --hosts=localhost --out=plain.prototxt
  hproute --solver=alexnet_solver.prototxt --conv=4 --fc=4 --hosts=a/cuda:0-3,b/cuda:0-3 --out=table.prototxt
  hproute --solver=lenet_solver.prototxt --conv=4 --fc=2 --hosts=slurm --out=table.prototxt   # in an sbatch script
  hproute --check table.prototxt
  hproute --simulate table.prototxt --hosts=hosts.prototxt --trace=out.json
Exit status: 0 written or valid, 2 faults.
)";

/// The flags that other programs have, too.
TableOptions& Options() {
  static TableOptions options;
  return options;
}

std::string CommandLine() {
  return "Routing table of hpnode, written by\nhproute --solver=" + FLAGS_solver + " --hosts=" + FLAGS_hosts +
         Options().text() + " --out=" + FLAGS_out + "\nEvery node of the job needs the same table.";
}

Status Write() {
  if (IsGiven("take")) return InvalidArgument("--take goes with --plan, and not with --conv and --fc");
  if (FLAGS_solver.empty()) return InvalidArgument("--solver=FILE is missing (hproute --help)");
  if (FLAGS_out.empty()) return InvalidArgument("--out=TABLE is missing (hproute --help)");
  TableOptions options = Options();
  options.sample.clear();  // with which this program checks any table
  HP_RETURN_IF_ERROR(CheckTableOptions(options));
  HP_ASSIGN_OR_RETURN(TableRequest request, RequestOfOptions(Options()));
  HP_ASSIGN_OR_RETURN(request.shares, NumbersOfFlag("shares", Options().shares, "a share of the batch"));
  request.solver = SolverFromTable(FLAGS_solver, FLAGS_out);
  HP_ASSIGN_OR_RETURN(request.hosts, ExcludeHosts(SplitList(Options().exclude), SplitList(FLAGS_hosts)));
  request.port = FLAGS_port;
  HP_ASSIGN_OR_RETURN(MadeTable made, MakeTableOf(FLAGS_solver, FLAGS_hosts, IsGiven("port"), &request));
  HP_RETURN_IF_ERROR(CheckMadeTable(Options().sample, {FLAGS_cache_dir, FLAGS_max_bad_records}, &made));
  for (const std::string& warning : made.warnings) std::cerr << "hproute: warning: " << warning << "\n";
  HP_RETURN_IF_ERROR(
      PutTableAt(FLAGS_out, made.config, TableText(made.config, CommandLine()), FLAGS_run_id, FLAGS_token_file));
  std::cout << FLAGS_out << ": " << made.config.node_size() << " node(s)\n" << DescribeTable(made.config, *made.net);
  return OkStatus();
}

/// Whether the numbers of nodes are to be chosen.
bool Chooses() { return IsGiven("plan") || (!IsGiven("conv") && !IsGiven("fc")); }

StatusOr<PlanFlags> FlagsOfPlan() {
  PlanFlags flags;
  flags.solver = FLAGS_solver;
  flags.solver_in_table = FLAGS_out.empty() ? FLAGS_solver : SolverFromTable(FLAGS_solver, FLAGS_out);
  flags.hosts = FLAGS_hosts;
  flags.exclude = SplitList(Options().exclude);
  flags.profile = Options().profile;
  flags.sample = Options().sample;
  flags.inputs = {FLAGS_cache_dir, FLAGS_max_bad_records};
  flags.per_replica = Options().batch_per_replica;
  HP_ASSIGN_OR_RETURN(flags.precision, PrecisionOf(Options().precision));
  HP_ASSIGN_OR_RETURN(flags.wire_precision, WirePrecisionOf(Options()));
  flags.tls = Options().tls;
  flags.job = Options().job;
  flags.port = FLAGS_port;
  flags.take = FLAGS_take;
  return flags;
}

/// How a scheduler starts the nodes of a table that was planned for `job_hosts`, each as the task of its number.
StatusOr<std::string> HowToStart(const RoutingTableConfig& config, const std::vector<std::string>& job_hosts) {
  std::vector<std::string> node_hosts, hosts;
  for (const NodeConfig& node : config.node()) node_hosts.push_back(node.host());
  for (const std::string& entry : job_hosts) hosts.push_back(entry.substr(0, entry.find('/')));
  HP_ASSIGN_OR_RETURN(const TaskPlacement placement, PlaceTasks(node_hosts, hosts));
  std::string text = "tasks: " + std::to_string(config.node_size()) + ", " + std::to_string(placement.nodes_per_host) +
                     " on each of " + Join(placement.hosts, ",") + "\n";
  if (!FLAGS_hosts.starts_with("slurm")) return text;
  return text + "start: srun --nodes=" + std::to_string(placement.hosts.size()) +
         " --ntasks=" + std::to_string(config.node_size()) +
         " --ntasks-per-node=" + std::to_string(placement.nodes_per_host) +
         " --nodelist=" + Join(placement.hosts, ",") + " --distribution=block hpnode --routing=" + FLAGS_out + "\n";
}

Status WriteProfile() {
  const char* const other = IsGiven("out") ? "out" : FirstGivenBut(Options(), {"precision", "profile", "sample"});
  if (other != nullptr || IsGiven("conv") || IsGiven("fc")) {
    return InvalidArgument("--%s does not go with --profile, which writes one without --plan", other != nullptr ? other
                                                                                               : IsGiven("conv")
                                                                                                   ? "conv"
                                                                                                   : "fc");
  }
  if (FLAGS_solver.empty()) return InvalidArgument("--solver=FILE is missing (hproute --help)");
  HP_ASSIGN_OR_RETURN(const PlanFlags flags, FlagsOfPlan());
  HP_ASSIGN_OR_RETURN(const ProfileConfig profile, ProfileSolver(flags));
  HP_RETURN_IF_ERROR(WriteWholeFile(Options().profile, ProfileText(profile)));
  std::cout << Options().profile << ": " << profile.layer_size() << " layers with " << profile.threads()
            << " thread(s)\n";
  return OkStatus();
}

Status Plan() {
  for (const char* flag : {"conv", "fc"}) {
    if (IsGiven(flag)) return InvalidArgument("--%s does not go with --plan: hproute chooses it", flag);
  }
  TableOptions options = Options();
  if (IsGiven("plan") && options.plan.empty()) return InvalidArgument("--plan is \"\"; expected auto");
  options.plan = IsGiven("plan") ? options.plan : "auto";  // so it is without --conv and --fc
  HP_RETURN_IF_ERROR(CheckTableOptions(options));
  if (FLAGS_take < 1) return InvalidArgument("--take is %d; expected 1 or more", FLAGS_take);
  if (FLAGS_solver.empty()) return InvalidArgument("--solver=FILE is missing (hproute --help)");
  HP_ASSIGN_OR_RETURN(PlanFlags flags, FlagsOfPlan());
  std::vector<std::string> job_hosts;
  if (AreJobHosts(FLAGS_hosts)) {
    HP_ASSIGN_OR_RETURN(job_hosts, JobHostsToPlan(FLAGS_hosts));
    flags.hosts = Join(job_hosts, ",");
    if (!IsGiven("port")) {
      HP_ASSIGN_OR_RETURN(flags.port, JobPort(FLAGS_hosts, FLAGS_port));
    }
  }
  HP_ASSIGN_OR_RETURN(PlannedTable planned, PlanTable(flags));
  if (!job_hosts.empty()) {
    HP_ASSIGN_OR_RETURN(const std::string start, HowToStart(planned.config, job_hosts));
    planned.reasons += start;
  }
  std::cout << planned.reasons;
  if (FLAGS_out.empty()) return OkStatus();
  options.conv = options.fc = "";  // chosen
  const std::string comment = "Routing table of hpnode, chosen by\nhproute --solver=" + FLAGS_solver +
                              " --hosts=" + FLAGS_hosts + options.text() + " --out=" + FLAGS_out +
                              "\nEvery node of the job needs the same table.\n\n" + planned.reasons;
  HP_RETURN_IF_ERROR(
      PutTableAt(FLAGS_out, planned.config, TableText(planned.config, comment), FLAGS_run_id, FLAGS_token_file));
  std::cout << FLAGS_out << ": " << planned.config.node_size() << " node(s)\n";
  return OkStatus();
}

/// Flags that make a table change nothing about one that is there.
Status CheckTakesTableAsItIs(const char* mode, const std::vector<const char*>& kept) {
  const char* const other = FirstGivenBut(Options(), kept);
  if (other == nullptr) return OkStatus();
  return InvalidArgument("--%s makes a new table, and --%s takes one as it is", other, mode);
}

Status Check(const std::string& path) {
  HP_RETURN_IF_ERROR(CheckTakesTableAsItIs("check", {"sample"}));
  HP_ASSIGN_OR_RETURN(
      const CheckedTable checked,
      CheckTableFile({path, Options().sample, FLAGS_memory_mb, {FLAGS_cache_dir, FLAGS_max_bad_records}}));
  std::cout << checked.text << std::flush;
  return checked.status;
}

Status SimulateJob(const std::string& path) {
  HP_RETURN_IF_ERROR(CheckTakesTableAsItIs("simulate", {"profile", "sample"}));
  SimulateFlags flags;
  flags.table = path;
  flags.hosts = IsGiven("hosts") ? FLAGS_hosts : "";
  flags.profile = Options().profile;
  flags.sample = Options().sample;
  flags.trace = FLAGS_trace;
  flags.inputs = {FLAGS_cache_dir, FLAGS_max_bad_records};
  HP_ASSIGN_OR_RETURN(const std::string text, SimulateTable(flags));
  std::cout << text;
  return OkStatus();
}

Status WriteToken(const std::string& path) {
  HP_RETURN_IF_ERROR(WriteNewToken(path));
  std::cout << path << ": a new token, readable by you alone; copy it to all hosts of the job and start each node with "
            << "--token_file=" << path << "\n";
  return OkStatus();
}

/// The key is given to who may read the weights, the token to nobody but nodes.
Status WriteReadKeyOf(const std::string& token_file, const std::string& path) {
  if (token_file.empty()) return InvalidArgument("--read_key needs the job's token: --token_file=FILE");
  HP_ASSIGN_OR_RETURN(const JobKeys keys, ReadJobKeys(token_file));
  HP_RETURN_IF_ERROR(WriteReadKey(keys, path));
  std::cout << path << ": the read key of " << token_file << ", readable by you alone; give it to who may read the "
            << "weights of the job: model_test --token_file=" << path << "\n";
  return OkStatus();
}

void RegisterFlags() {
  RegisterTableFlags(
      __FILE__, &Options(),
      {{"plan",
        "auto: choose the table for the highest throughput on --hosts, and say why; so it is without --conv and --fc. "
        "Without --out the table is not written."},
       {"sample",
        "Where a table is made, checked or simulated, and the data is not on this host: CHANNELS,HEIGHT,WIDTH of a "
        "sample behind its transformation, such as 3,227,227, behind a slash the shape of its labels, if they are "
        "several, such as 3,227,227/227,227, and behind a plus each further top of a row, such as 3,227,227+10+1."},
       {"profile",
        "With --plan=auto or --simulate: a file with times of the net's layers, which replace counted operations. "
        "Without: time the layers on this host, for some seconds, and write that file; --hosts=NAME is what "
        "hosts.prototxt calls this host."},
       {"exclude",
        "Hosts of --hosts to leave out, separated by commas: those that hpctl status or a log calls slow."}});
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  hp::RegisterFlags();
  const hp::ToolUsage usage{"hproute", hp::kUsage, 0, 1};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>& arguments) -> hp::Status {
    HP_RETURN_IF_ERROR(hp::CheckMaxBadRecords(FLAGS_max_bad_records));
    if (FLAGS_check && arguments.size() == 1) return hp::Check(arguments[0]);
    if (FLAGS_check) return hp::InvalidArgument("--check needs a table (hproute --check TABLE)");
    if (FLAGS_simulate && arguments.size() == 1) return hp::SimulateJob(arguments[0]);
    if (FLAGS_simulate) return hp::InvalidArgument("--simulate needs a table (hproute --simulate TABLE)");
    if (!FLAGS_trace.empty()) return hp::InvalidArgument("--trace goes with --simulate (hproute --help)");
    if (!arguments.empty())
      return hp::InvalidArgument("unexpected argument \"%s\" (hproute --help)", arguments[0].c_str());
    if (!FLAGS_new_token.empty()) return hp::WriteToken(FLAGS_new_token);
    if (!FLAGS_read_key.empty()) return hp::WriteReadKeyOf(FLAGS_token_file, FLAGS_read_key);
    if (!FLAGS_token_file.empty()) return hp::InvalidArgument("--token_file goes with --read_key (hproute --help)");
    if (!hp::Options().profile.empty() && !hp::IsGiven("plan")) return hp::WriteProfile();
    return hp::Chooses() ? hp::Plan() : hp::Write();
  });
}
