// Trains one node of a job, or (--all) all nodes of a table in this process.
#include "base/clock.h"
#include "base/file_limit.h"
#include "base/format.h"
#include "base/job_environment.h"
#include "base/log_writer.h"
#include "base/out_of_memory.h"
#include "commands/data_fingerprint.h"
#include "commands/find_table.h"
#include "commands/launch.h"
#include "commands/node_run.h"
#include "commands/signals.h"
#include "commands/survey.h"
#include "commands/table_options.h"
#include "commands/time_limit.h"
#include "node/doctor.h"
#include "node/node.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "report/progress_file.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_places.h"
#include "tools/tool_main.h"

#include "devices/devices.h"
#include "glog/logging.h"
#include <gflags/gflags.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

DEFINE_string(routing, "",
              "the job's routing table: a file (text protobuf; hproute writes one), or who hands it out: "
              "tcp://HOST:PORT (hpserver), dir:///shared/path or redis://HOST:PORT/RUN_ID");
DEFINE_string(run_id, "",
              "id of the run, the same on all its nodes, where the table is handed out; empty: the scheduler's");
DEFINE_string(solver, "", "Caffe solver file, where the table is handed out: in place of the table's");
DEFINE_string(device, "cpu", "where the table is handed out: what this node computes on, cpu or cuda:N");
DEFINE_int32(port, 0, "where the table is handed out: the port to listen on; 0: any free one");
DEFINE_string(
    address, "",
    "where the table is handed out: ADDRESS or ADDRESS:PORT by which the others reach this node, if that is none of "
    "its host's own addresses (NAT) or not the best; PORT leads to --port. Goes with a token");
DEFINE_string(
    port_folder, "",
    "a folder that all hosts share, of this start of the job alone: nodes listen on any free port instead of the "
    "table's, tell each other there, and the first one writes table.prototxt with these ports there; for tasks of a "
    "scheduler, or with --node");
DEFINE_string(
    run_folder, "",
    "the folder of this run, made if it is missing, on a disk that all hosts share or on each host's own disk: table, "
    "solver and net in use, logs, record.txt, and snapshots where the solver's snapshot_prefix is relative or missing; "
    "a second live run in it is refused, a restart goes on in it");
DEFINE_string(role, "", "conv, fc or ps: role of the node to run, one of the table's nodes on this host");
DEFINE_string(node, "", "name of the node to run; overrides --role and this host's addresses");
DEFINE_bool(all, false, "run every node of the table as threads of this process, without a network");
DEFINE_string(
    resume, "",
    "resume from this .solverstate, the same file on every node of the job; or latest: from the newest complete "
    "snapshot of this training that any node has, or from the beginning if there is none");
DEFINE_int32(
    keep_snapshots, 0,
    "of the nodes that write snapshots (the first one): so many of this training stay, older ones are removed, "
    "except the one that was resumed from; 0: all stay");
DEFINE_string(
    weights, "",
    "take initial weights from this .caffemodel, or several separated by commas, layer by layer by name; without "
    "it those that the solver's weights name");
DEFINE_int64(
    max_bad_records, 0,
    "How many records of training, and of tests, may be missing, damaged or of another shape. Each is named in the "
    "log, and the next good one of the data stands in for it.");
DEFINE_string(cache_dir, "",
              "folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache");
DEFINE_int32(reader_threads, 1, "threads that read and transform records, on conv nodes");
DEFINE_string(token_file, "", "the job's token (hproute --new_token): peers without it are turned away");
DEFINE_string(interface, "",
              "what to listen on: an interface's name, or a network like 10.0.0.0/8; empty: as the table says");
DEFINE_int32(wait, 0, "how long to wait for the other nodes to appear, in s; 0: as the table says");
DEFINE_int32(stop_within_s, 20,
             "a stop (SIGINT, SIGTERM, SIGUSR1) that takes longer, in s, ends the node without a snapshot");
DEFINE_int32(
    stop_before_s, -1,
    "how long before the end of the scheduler's allocation (SLURM_JOB_END_TIME) to stop with a snapshot, in s; "
    "0: not; -1: 10 s more than --stop_within_s");
DEFINE_string(sigint_effect, "stop",
              "what SIGINT does while training: stop (with a snapshot), snapshot or none, as in Caffe");
DEFINE_string(sighup_effect, "snapshot", "what SIGHUP does while training: snapshot, stop or none");
DEFINE_string(progress_file, "",
              "file that is written when iterations have ended, at most once a second: its age says whether training "
              "goes on; empty until the first one has");
DEFINE_string(
    csv, "",
    "write the curves of the training to this file, with Caffe2's columns: a row for each display and each test; "
    "only the node that logs the losses writes it");
DEFINE_string(
    tensorboard, "",
    "write the curves of the training to an event file in FOLDER, for TensorBoard: points for each display and "
    "test; only the node that logs the losses writes it");
DEFINE_string(trace, "", "write what this process's nodes do to FOLDER/NODE.json, for ui.perfetto.dev");
DEFINE_string(metrics, "", "serve the node's metrics to Prometheus at http://ADDRESS:PORT/metrics; empty: nowhere");
DEFINE_bool(
    doctor, false,
    "check this host's RDMA setup, or with --routing all pairs of the table's hosts over TCP; suggest what to do "
    "about it, and exit");
DEFINE_string(doctor_out, "", "with --doctor and --routing: write the measured hosts here, for hproute --hosts");
DEFINE_string(doctor_listen, "", "with --doctor: wait at ADDRESS:PORT for another host's --doctor_peer");
DEFINE_string(doctor_peer, "", "with --doctor: measure the connection to the host that waits at ADDRESS:PORT");
DEFINE_string(doctor_address, "", "with --doctor: this host's address, as other hosts see it");
DEFINE_bool(data_fingerprint, false,
            "with --node: say what the node's data is, as nodes compare it at their handshake, and exit");
DEFINE_bool(list_devices, false, "list the devices of this host, and exit");
DEFINE_string(ib_hca, "", "RDMA devices of this host to use, as NCCL_IB_HCA; overrides the table");
DEFINE_int32(ib_gid_index, hp::HostDevices::kNotSet,
             "GID index of this host, as NCCL_IB_GID_INDEX; -1: chosen automatically");

namespace hp {
namespace {

constexpr int kMaxWaitS = 1'000'000;
constexpr int kStopMarginS = 10;  // for processes and a batch script to end

constexpr char kUsage[] =
    "trains one node of a job\n"
    "usage: hpnode --role=conv|fc|ps --routing=table.prototxt [--node=NAME]\n"
    "       hpnode --all --routing=table.prototxt\n"
    "       srun hpnode --routing=table.prototxt     # or mpirun: task i is node i of the table (tools/cluster)\n"
    "       hpnode [--role=conv|fc|ps] --routing=tcp://HOST:PORT|dir:///PATH|redis://HOST:PORT/RUN_ID [--run_id=ID]\n"
    "example, on one host:\n"
    "  hproute --solver=solver.prototxt --conv=2 --fc=2 --hosts=127.0.0.1 --out=table.prototxt\n"
    "  hpnode --role=conv --routing=table.prototxt &   # twice\n"
    "  hpnode --role=fc --routing=table.prototxt &     # twice\n"
    "to list the devices of a host:\n"
    "  hpnode --list_devices\n"
    "to measure the network of the table's hosts, on each of them at the same time:\n"
    "  hpnode --doctor --routing=table.prototxt [--doctor_out=hosts.prototxt]\n"
    "to check the RDMA setup of a host:\n"
    "  hpnode --doctor [--doctor_listen=ADDRESS:PORT | --doctor_peer=ADDRESS:PORT]\n"
    "exit status: 0 success, 1 internal error, 2 invalid input or configuration, or too little memory,\n"
    "  3 NaN or infinity, 4 a node was lost,\n"
    "  5 stopped early by SIGINT, SIGTERM or SIGUSR1, with a snapshot to resume from";

/// This process in its run folder.
NodeRun& Run() {
  static auto* const run = new NodeRun;
  return *run;
}

/// Ends the process where other threads may be blocked for good in a collective or a system call.
[[noreturn]] void LeaveProcess(const Status& status) {
  Run().End(status);
  FlushLog(std::chrono::seconds(2));
  _exit(ExitStatus(status));
}

/// The flags by which this node plans, if it does.
TableOptions& Options() {
  static TableOptions options;
  return options;
}

void RegisterFlags() {
  Options().conv = Options().fc = "0";
  RegisterTableFlags(
      __FILE__, &Options(),
      {{"conv",
        "with dir:// or redis://: make the table, if no other node does, for so many conv nodes; N1,N2: of two conv "
        "stages, the second of which begins at the first layer of --cut. Give all nodes that may make it the same "
        "flags"},
       {"fc", "likewise FC nodes; K1,K2: of two FC stages"},
       {"ps", "likewise parameter servers"},
       {"plan", "auto: plan for --conv and --fc nodes in all the table with the highest throughput"},
       {"shares",
        "with --conv: share of the batch of the conv nodes of a host: HOST:SHARE,..., such as big:2,10.0.0.7:3, HOST "
        "being its name or an address; nodes of other hosts have 1"},
       {"profile",
        "with --plan=auto: files with times of the net's layers, separated by commas (hproute --profile=FILE "
        "--hosts=HOST); each is of the host that it names"},
       {"exclude",
        "with --conv or --plan=auto: hosts to leave out, separated by commas; their nodes are told that they are not "
        "needed, and end with status 0"}});
}

TableFlags FlagsOfTable() {
  TableFlags flags{.routing = FLAGS_routing,
                   .run_id = FLAGS_run_id,
                   .role = FLAGS_role,
                   .node = FLAGS_node,
                   .device = FLAGS_device,
                   .port = FLAGS_port,
                   .address = FLAGS_address,
                   .plan = {}};
  flags.plan = {FLAGS_solver, Options(), {FLAGS_cache_dir, FLAGS_max_bad_records}};
  return flags;
}

NodeOptions OptionsFor(const RoutingTable& table, Rank rank) {
  NodeOptions options;
  options.table = &table;
  options.rank = rank;
  options.resume = FLAGS_resume;
  options.weights = FLAGS_weights;
  options.snapshot_prefix = Run().snapshot_prefix();
  options.keep_snapshots = FLAGS_keep_snapshots;
  options.cache_dir = FLAGS_cache_dir;
  options.max_bad_records = FLAGS_max_bad_records;
  options.reader_threads = FLAGS_reader_threads;
  options.stop_within_s = FLAGS_stop_within_s;
  options.trace_folder = FLAGS_trace;
  options.csv = FLAGS_csv;
  options.tensorboard = FLAGS_tensorboard;
  options.leave = LeaveProcess;
  return options;
}

StatusOr<HostSettings> ReadHostSettings() {
  HostSettings host;
  host.devices = {FLAGS_ib_hca, FLAGS_ib_gid_index};
  host.wait_s = FLAGS_wait;
  host.interface = FLAGS_interface;
  if (FLAGS_token_file.empty()) return host;
  HP_ASSIGN_OR_RETURN(host.keys, ReadJobKeys(FLAGS_token_file));
  if (!host.keys->node) {
    return InvalidArgument("%s is a read key; a node needs the job's token", FLAGS_token_file.c_str());
  }
  return host;
}

/// Whether --routing names who hands the table out.
bool IsHandedOut() { return FLAGS_routing.find("://") != std::string::npos; }

/// Who this process is by its scheduler; no task where flags say it.
StatusOr<JobEnvironment> ReadTask() {
  HP_ASSIGN_OR_RETURN(JobEnvironment job, ReadJobEnvironment());
  const bool by_flags = FLAGS_all || !FLAGS_role.empty() || !FLAGS_node.empty();
  if (by_flags) job.task = -1;
  if (by_flags || job.is_task() || IsHandedOut()) return job;
  return InvalidArgument(
      "--role=conv|fc|ps or --node=NAME is missing, and this is no task of Slurm, Open MPI, PMIx, Kubernetes or RANK "
      "and WORLD_SIZE%s (hpnode --help)",
      job.allocation.empty() ? "" : (", but runs beside the tasks of " + job.allocation + " (srun hpnode)").c_str());
}

StatusOr<TimeLimit> ReadTimeLimit(const JobEnvironment& job) {
  const int before_s = FLAGS_stop_before_s == -1 ? FLAGS_stop_within_s + kStopMarginS : FLAGS_stop_before_s;
  if (before_s != 0 && before_s < FLAGS_stop_within_s) {
    return InvalidArgument("--stop_before_s is %d; expected 0, -1, or --stop_within_s (%d) or more", before_s,
                           FLAGS_stop_within_s);
  }
  return TimeLimit(job.end_time_s, before_s, std::time(nullptr), Clock::Real());
}

/// @return null: nobody wants one.
StatusOr<std::unique_ptr<ProgressFile>> MakeProgressFile() {
  if (FLAGS_progress_file.empty()) return std::unique_ptr<ProgressFile>();
  return ProgressFile::Create(FLAGS_progress_file);
}

Status PortsAreFree() {
  return InvalidArgument("--port_folder: nodes have free ports already where the table is made of what they say");
}

/// The node of the table that the rendezvous gave to this process, or else the scheduler, or that flags choose.
StatusOr<OwnNode> TakeNode(FoundTable* found, const HostSettings& host, const JobEnvironment& job) {
  const RoutingTable& table = *found->table;
  if (found->listener && !FLAGS_port_folder.empty()) return PortsAreFree();
  if (found->listener) return TakeGivenNode(table, found->node, std::move(found->listener), host);
  if (!FLAGS_port_folder.empty()) return TakeNodeOnFreePort(job, FLAGS_node, host, FLAGS_port_folder, &*found->table);
  if (job.is_task()) return TakeTaskNodeOverNetwork(table, job, host);
  return TakeOwnNodeOverNetwork(table, FLAGS_role, FLAGS_node, host);
}

Status RunOne(FoundTable* found, const HostSettings& host, const JobEnvironment& job, SignalThread* signals,
              bool* said) {
  const RoutingTable& table = *found->table;
  const int peers = table.size() - 1;
  HP_RETURN_IF_ERROR(RaiseFileLimit(peers, Format("the connections to %d other nodes", peers)));
  const RunStart start = StartOfRun(table, found->start, job);
  HP_ASSIGN_OR_RETURN(OwnNode own, TakeNode(found, host, job));
  HP_RETURN_IF_ERROR(Run().Enter(start, table, table.node(own.rank).name, own.rank == 0));
  HP_ASSIGN_OR_RETURN(std::unique_ptr<ProgressFile> file, MakeProgressFile());
  NodeOptions options = OptionsFor(table, own.rank);
  options.transport = std::move(own.transport);
  options.run_name = NameOfRun(found->start, job, Run());
  if (Attendance* const attendance = found->attendance.get()) {
    options.on_loss = [attendance](int64_t clock, double) { attendance->SetIteration(clock + 1); };
    options.leave = [attendance](const Status& status) {
      attendance->End(ExitStatus(status));
      LeaveProcess(status);
    };
  }
  Node node(std::move(options));
  std::unique_ptr<MetricsEndpoint> metrics;
  if (!FLAGS_metrics.empty()) {
    HP_ASSIGN_OR_RETURN(metrics, MetricsEndpoint::Open(FLAGS_metrics, [&node] { return node.metrics(); }));
  }
  signals->Serve(&node);
  const std::unique_ptr<ProgressFile> progress = std::move(file);  // ends before the node
  if (progress) progress->Follow([&node] { return node.iterations_done(); });
  const ProgressBar bar([&node] { return node.reporter(); });
  *said = true;
  Status status = node.Open();
  if (status.ok()) status = node.Run();
  signals->Serve(nullptr);
  if (found->attendance) found->attendance->BeginEnd(ExitStatus(status));  // is said while the node is taken down
  return status;
}

/// Whether --port_folder goes with the other flags.
Status CheckPortFolder(const JobEnvironment& job) {
  if (FLAGS_port_folder.empty()) return OkStatus();
  if (FLAGS_all) return InvalidArgument("--port_folder: with --all, nodes have no ports");
  if (FlagsOfTable().plan.plans() || FLAGS_routing.starts_with("tcp://")) return PortsAreFree();
  if (job.is_task() || !FLAGS_node.empty()) return OkStatus();
  return InvalidArgument(
      "--port_folder: by --role, nodes of one host are told apart by their ports; expected --node=NAME or a task of a "
      "scheduler");
}

/// Runs one node of the table that --routing leads to.
Status TrainOne(const JobEnvironment& job, SignalThread* signals, bool* said) {
  HP_ASSIGN_OR_RETURN(const HostSettings host, ReadHostSettings());
  HP_ASSIGN_OR_RETURN(FoundTable found, FindTable(FlagsOfTable(), host));
  if (!found.table) {
    LOG(INFO) << found.why;
    return OkStatus();
  }
  const Status status = RunOne(&found, host, job, signals, said);
  if (found.attendance) found.attendance->End(ExitStatus(status));
  return status;
}

/// The table of a file, for what does not ask a rendezvous.
StatusOr<RoutingTable> LoadTable() {
  HP_RETURN_IF_ERROR(CheckFileFlags(FlagsOfTable()));
  return RoutingTable::Load(FLAGS_routing);
}

Status TellFingerprint() {
  HP_ASSIGN_OR_RETURN(const RoutingTable table, LoadTable());
  HP_ASSIGN_OR_RETURN(const std::string text,
                      DescribeData(table, FLAGS_node, {FLAGS_cache_dir, FLAGS_max_bad_records}));
  std::cout << text << std::endl;
  return OkStatus();
}

/// @param[out] said nodes ran, and have logged why they ended
Status Train(const JobEnvironment& job, SignalThread* signals, bool* said) {
  if (!FLAGS_all) return TrainOne(job, signals, said);
  if (!FLAGS_metrics.empty()) return InvalidArgument("--metrics is of one node, and does not go with --all");
  HP_ASSIGN_OR_RETURN(const RoutingTable table, LoadTable());
  for (const NodeInfo& node : table.nodes()) {
    if (node.device != kOwnGpu) continue;
    return InvalidArgument(
        "%s: node \"%s\" has device: \"cuda\", the GPU of a scheduler's task; with --all expected "
        "\"cpu\" or \"cuda:N\"",
        table.path().c_str(), node.name.c_str());
  }
  HP_RETURN_IF_ERROR(Run().Enter(StartOfRun(table, {}, job), table, NodeRun::kAllNodes, true));
  HP_ASSIGN_OR_RETURN(std::unique_ptr<ProgressFile> progress, MakeProgressFile());
  *said = true;
  return RunAllNodes(
      table,
      [&](Rank rank) {
        NodeOptions options = OptionsFor(table, rank);
        options.run_name = NameOfRun({}, job, Run());
        return options;
      },
      {},
      [signals, &progress](Node* node) {
        signals->Serve(node);
        if (node == nullptr) progress.reset();
        if (progress) progress->Follow([node] { return node->iterations_done(); });
      });
}

Status Survey() {
  if (!FLAGS_doctor_listen.empty() || !FLAGS_doctor_peer.empty()) {
    return InvalidArgument(
        "--doctor measures either the table's hosts (--routing) or one connection by RDMA "
        "(--doctor_listen, --doctor_peer)");
  }
  HP_ASSIGN_OR_RETURN(const RoutingTable table, LoadTable());
  HP_ASSIGN_OR_RETURN(const HostSettings host, ReadHostSettings());
  return RunSurvey(table, FLAGS_node, host, FLAGS_doctor_out, &std::cout);
}

Status Main(bool* said) {
  if (FLAGS_wait < 0 || FLAGS_wait > kMaxWaitS) {
    return InvalidArgument("--wait is %d; expected 0 to %d", FLAGS_wait, kMaxWaitS);
  }
  if (FLAGS_doctor && !FLAGS_routing.empty()) return Survey();
  if (!FLAGS_doctor_out.empty()) return InvalidArgument("--doctor_out needs --doctor and --routing=table.prototxt");
  if (FLAGS_doctor) {
    return RunDoctor({{FLAGS_ib_hca, FLAGS_ib_gid_index}, FLAGS_doctor_address, FLAGS_doctor_listen, FLAGS_doctor_peer},
                     &std::cout);
  }
  if (FLAGS_list_devices) {
    std::cout << DescribeDevices() << std::flush;
    return OkStatus();
  }
  if (FLAGS_routing.empty()) return InvalidArgument("--routing=table.prototxt is missing (hpnode --help)");
  HP_RETURN_IF_ERROR(CheckThreads("reader_threads", FLAGS_reader_threads, 1));
  if (FLAGS_data_fingerprint) return TellFingerprint();
  if (FLAGS_all && !(FLAGS_role + FLAGS_node).empty()) {
    return InvalidArgument("--all runs every node of the table; --role and --node name one");
  }
  if (FLAGS_all && IsHandedOut()) return InvalidArgument("--all goes with a table that is a file");
  HP_ASSIGN_OR_RETURN(const JobEnvironment job, ReadTask());
  HP_RETURN_IF_ERROR(CheckPortFolder(job));
  HP_RETURN_IF_ERROR(CheckMaxBadRecords(FLAGS_max_bad_records));
  if (FLAGS_keep_snapshots < 0)
    return InvalidArgument("--keep_snapshots is %d; expected at least 0", FLAGS_keep_snapshots);
  if (FLAGS_stop_within_s < 1)
    return InvalidArgument("--stop_within_s is %d; expected at least 1", FLAGS_stop_within_s);
  HP_ASSIGN_OR_RETURN(const TimeLimit limit, ReadTimeLimit(job));
  HP_ASSIGN_OR_RETURN(const SignalThread::Effect on_sigint, EffectOfFlag("sigint_effect", FLAGS_sigint_effect));
  HP_ASSIGN_OR_RETURN(const SignalThread::Effect on_sighup, EffectOfFlag("sighup_effect", FLAGS_sighup_effect));
  // Ahead of all other threads, and for good: threads may be blocked when the process ends.
  auto* const signals = new SignalThread({.stop_within_s = FLAGS_stop_within_s,
                                          .on_sigint = on_sigint,
                                          .on_sighup = on_sighup,
                                          .limit = limit,
                                          .leave = LeaveProcess});
  StartLogWriter();
  Run().Begin(FLAGS_run_folder);
  return Train(job, signals, said);
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  hp::OpenStandardStreams();
  hp::ExitWhenOutOfMemory();
  hp::LogAsCaffe();
  FLAGS_logbufsecs = 0;  // of --log_dir: the process ends by _exit, which flushes no file
  hp::RegisterFlags();
  if (hp::ParseFlags({"hpnode", hp::kUsage, 0, 0}, &argc, &argv)) return 0;
  google::InitGoogleLogging(argv[0]);
  bool said = false, ended = false;
  const hp::Status status = hp::OrOutOfMemory("", [&] {
    const hp::Status result = hp::Main(&said);
    ended = true;
    return result;
  });
  if (!status.ok() && !(said && ended)) LOG(ERROR) << status.message();
  hp::LeaveProcess(status);
}
