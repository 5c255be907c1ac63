#include "commands/serve_tables.h"

#include "base/environment.h"
#include "base/host.h"
#include "node/make_transport.h"
#include "node/server_transport.h"

#include "rendezvous/address.h"
#include "rendezvous/folder_store.h"
#include "rendezvous/run_id.h"
#include "rendezvous/table_server.h"
#include <glog/logging.h>

#include <optional>

namespace hp {
namespace {

StatusOr<std::optional<JobKeys>> KeysOfServer(const ServeFlags& flags, const std::string& host) {
  std::optional<JobKeys> keys;
  if (flags.token_file.empty()) {
    if (IsLoopbackHost(host)) return keys;
    return InvalidArgument(
        "--listen=%s is reached from other hosts: --token_file=FILE is missing (hproute --new_token)",
        flags.listen.c_str());
  }
  HP_ASSIGN_OR_RETURN(keys, ReadJobKeys(flags.token_file));
  if (!keys->node) return InvalidArgument("%s is a read key; expected the job's token", flags.token_file.c_str());
  return keys;
}

/// The run of the folder, which it keeps from the first start on.
StatusOr<std::string> RunOfFolder(const ServeFlags& flags) {
  FileSeam* const files = FileSeam::Real();
  const std::string path = flags.folder + "/run_id";
  HP_ASSIGN_OR_RETURN(std::string run, RunIdFor(flags.run_id, &Environment));
  HP_ASSIGN_OR_RETURN(const std::optional<std::string> there, files->ReadFile(path));
  if (there) {
    HP_RETURN_IF_ERROR(CheckRunId(*there).Prepend(path));
    if (run.empty() || run == *there) return *there;
    return FailedPrecondition("%s is of the run \"%s\", not \"%s\": choose another --folder", flags.folder.c_str(),
                              there->c_str(), run.c_str());
  }
  if (run.empty()) run = NewNonce();
  HP_RETURN_IF_ERROR(files->WriteFile(path, run));
  return run;
}

}  // namespace

Status ServeTables(const ServeFlags& flags) {
  if (flags.listen.empty()) return InvalidArgument("--listen=HOST:PORT is missing (hpserver --help)");
  if (flags.folder.empty()) return InvalidArgument("--folder=DIR is missing (hpserver --help)");
  std::string host;
  int port = 0;
  HP_RETURN_IF_ERROR(ParseHostPort("listen", flags.listen, &host, &port));
  HP_RETURN_IF_ERROR(CheckSeatPlan(flags.plan));
  TableServerOptions options;
  HP_ASSIGN_OR_RETURN(options.keys, KeysOfServer(flags, host));
  HP_ASSIGN_OR_RETURN(const auto store, FolderStore::Open(flags.folder, NewNonce()));
  HP_ASSIGN_OR_RETURN(options.run, RunOfFolder(flags));
  options.wanted = NodesWantedBy(flags.plan);
  options.planner = MakeSeatPlanner(flags.plan);
  HP_ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener, TcpListener::Bind(host, port));
  LOG(INFO) << "run " << options.run << ": listens on " << HostPort(host.empty() ? "*" : host, listener->port())
            << ", waits for " << options.wanted.total() << " nodes";
  const std::unique_ptr<Transport> transport = MakeTableServerTransport(options.keys, std::move(listener));
  options.on_table = flags.on_table;
  TableServer server(options, store.get(), transport.get());
  return server.Serve();
}

}  // namespace hp
