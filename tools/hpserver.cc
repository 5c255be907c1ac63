// Waits until enough nodes have asked, plans, hands each its table, and hears how it goes.
#include "commands/serve_tables.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>

DEFINE_string(solver, "", "Caffe solver file of the job.");
DEFINE_int32(conv, 1, "Number of conv nodes (replicas).");
DEFINE_int32(fc, 1, "Number of FC nodes (shards); 0: no FC stage.");
DEFINE_int32(ps, 0, "Number of parameter servers of the conv nodes.");
DEFINE_string(plan, "",
              "auto: wait for as many nodes as --conv and --fc say together, and choose the table for the highest "
              "throughput on what they say they have; roles that they ask for are not heeded.");
DEFINE_string(sample, "",
              "With --plan=auto, and the data is not on this host: CHANNELS,HEIGHT,WIDTH of a sample behind its "
              "transformation, such as 3,227,227.");
DEFINE_string(listen, "127.0.0.1:29400",
              "HOST:PORT that it listens on; :PORT: all addresses. Off loopback it needs --token_file.");
DEFINE_string(folder, "", "Folder of its own, where tables and run id lie; started again with it, it goes on.");
DEFINE_string(run_id, "", "Id of the run; empty: the folder's, the scheduler's, or a random one.");
DEFINE_string(token_file, "", "The job's token (hproute --new_token): nodes without it are turned away.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace {

constexpr char kUsage[] =
    R"(Hands out the routing tables of a run: waits until enough nodes have asked, plans, gives each its table, hears how
it goes, and gives the next table to nodes that are started again. Its loss stops no training.

  hpserver --solver=FILE --conv=N --fc=K [--plan=auto] --listen=HOST:PORT --folder=DIR [--token_file=FILE]

Example:
  hpserver --solver=solver.prototxt --conv=2 --fc=2 --listen=127.0.0.1:29400 --folder=run &
  hpnode --role=conv --routing=tcp://127.0.0.1:29400 &   # twice
  hpnode --role=fc --routing=tcp://127.0.0.1:29400 &     # twice
It serves until it is ended by SIGINT or SIGTERM. Exit status: 2 invalid input or configuration.
)";

}  // namespace

int main(int argc, char** argv) {
  return hp::ToolMain(argc, argv, {"hpserver", kUsage, 0, 0}, [](const std::vector<std::string>&) {
    hp::ServeFlags flags;
    flags.plan = {FLAGS_solver, FLAGS_plan, FLAGS_conv, FLAGS_fc, FLAGS_ps, FLAGS_sample, FLAGS_cache_dir};
    flags.listen = FLAGS_listen;
    flags.folder = FLAGS_folder;
    flags.run_id = FLAGS_run_id;
    flags.token_file = FLAGS_token_file;
    return hp::ServeTables(flags);
  });
}
