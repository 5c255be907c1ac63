// Waits until enough nodes have asked, plans, hands each its table, and hears how it goes.
#include "base/mutex.h"
#include "commands/serve_tables.h"
#include "commands/table_options.h"
#include "tools/tool_main.h"

#include "control_client/job_page.h"
#include <gflags/gflags.h>

#include <memory>
#include <optional>
#include <utility>

DEFINE_string(solver, "", "Caffe solver file of the job.");
DEFINE_string(listen, "127.0.0.1:29400",
              "HOST:PORT that it listens on; :PORT: all addresses. Off loopback it needs --token_file.");
DEFINE_string(folder, "", "Folder of its own, where tables and run id lie; started again with it, it goes on.");
DEFINE_string(run_id, "", "Id of the run; empty: the folder's, the scheduler's, or a random one.");
DEFINE_string(token_file, "", "The job's token (hproute --new_token): nodes without it are turned away.");
DEFINE_string(
    http, "",
    "Show the job to browsers of this host at http://ADDRESS:PORT/, a loopback address such as 127.0.0.1:8080; "
    "empty: nowhere.");
DEFINE_int64(max_bad_records, 0,
             "How many records may be missing, damaged or of another shape, as hpnode's flag, in the data that is read "
             "for the table.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace hp {
namespace {

constexpr char kUsage[] =
    R"(Hands out the routing tables of a run: waits until enough nodes have asked, plans, gives each its table, hears how
it goes, and gives the next table to nodes that are started again. Its loss stops no training.

  hpserver --solver=FILE --conv=N --fc=K [--plan=auto] --listen=HOST:PORT --folder=DIR [--token_file=FILE]
           [--http=127.0.0.1:PORT]

Example:
  hpserver --solver=solver.prototxt --conv=2 --fc=2 --listen=127.0.0.1:29400 --folder=run &
  hpnode --role=conv --routing=tcp://127.0.0.1:29400 &   # twice
  hpnode --role=fc --routing=tcp://127.0.0.1:29400 &     # twice
Nodes get their places in the order of their hosts' names, whichever asks first.
It serves until it is ended by SIGINT or SIGTERM. Exit status: 2 invalid input or configuration.
)";

/// The flags that other programs have, too.
TableOptions& Options() {
  static TableOptions options;
  return options;
}

void RegisterFlags() {
  RegisterTableFlags(
      __FILE__, &Options(),
      {{"plan",
        "auto: wait for as many nodes as --conv and --fc say together, and choose the table for the highest throughput "
        "on what they say they have; roles that they ask for are not heeded."},
       {"beside",
        "FC shard i is a part of conv node i; shards beyond the conv nodes have nodes of their own, and only so many "
        "FC nodes are waited for."},
       {"shares",
        "Share of the batch of the conv nodes of a host: HOST:SHARE,..., such as big:2,10.0.0.7:3, HOST being its name "
        "or an address; nodes of other hosts have 1."},
       {"tls", "Encrypt what the nodes send to each other, too; needs --token_file, here and on each of them."},
       {"profile",
        "With --plan=auto: files with times of the net's layers, separated by commas (hproute --profile=FILE "
        "--hosts=HOST, on each kind of host). Each is of the host that it names; hosts without one are taken to differ "
        "from that of the first by their processors alone."},
       {"exclude",
        "Hosts to leave out, separated by commas: those that hpctl status or a log calls slow. Their nodes are told "
        "that they are not needed, and end with status 0."}});
}

/// The newest table, for the page.
class NewestTable {
 public:
  void Set(const TableRecord& table) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    newest_ = table;
  }
  StatusOr<RoutingTable> Get() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (!newest_) return Unavailable("no table has been handed out yet: too few nodes have asked");
    return RoutingTable::Create(newest_->config(), "table of incarnation " + std::to_string(newest_->incarnation()));
  }

 private:
  Mutex mutex_;
  std::optional<TableRecord> newest_ HP_GUARDED_BY(mutex_);
};

StatusOr<std::unique_ptr<JobPage>> OpenPage(NewestTable* table) {
  JobClient::Options options;
  if (!FLAGS_token_file.empty()) {
    HP_ASSIGN_OR_RETURN(options.keys, ReadJobKeys(FLAGS_token_file));
  }
  return JobPage::Open("http", FLAGS_http, JobReader([table] { return table->Get(); }, options));
}

Status Run() {
  ServeFlags flags;
  HP_RETURN_IF_ERROR(CheckMaxBadRecords(FLAGS_max_bad_records));
  flags.plan = {FLAGS_solver, Options(), {FLAGS_cache_dir, FLAGS_max_bad_records}};
  if (Options().tls && FLAGS_token_file.empty()) {
    return InvalidArgument("--tls needs the job's token: --token_file=FILE (hproute --new_token)");
  }
  flags.listen = FLAGS_listen;
  flags.folder = FLAGS_folder;
  flags.run_id = FLAGS_run_id;
  flags.token_file = FLAGS_token_file;
  NewestTable table;
  flags.on_table = [&table](const TableRecord& newest) { table.Set(newest); };
  std::unique_ptr<JobPage> page;  // ends before the table
  if (!FLAGS_http.empty()) {
    HP_ASSIGN_OR_RETURN(page, OpenPage(&table));
  }
  return ServeTables(flags);
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  hp::RegisterFlags();
  return hp::ToolMain(argc, argv, {"hpserver", hp::kUsage, 0, 0},
                      [](const std::vector<std::string>&) { return hp::Run(); });
}
