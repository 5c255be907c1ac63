// Talks to a running job: shows how it is, and gives it orders.
#include "node/job_client.h"
#include "tools/tool_main.h"

#include "control_client/job_page.h"
#include "control_client/orders.h"
#include "control_client/show_status.h"
#include "control_client/watch.h"
#include <gflags/gflags.h>
#include <unistd.h>

#include <ctime>
#include <iostream>

DEFINE_string(routing, "", "The job's routing table.");
DEFINE_string(token_file, "",
              "The job's token; for status and watch its read key will do (hproute --new_token, --read_key).");
DEFINE_bool(json, false, "With status: print JSON, with all that is known.");
DEFINE_string(http, "127.0.0.1:8080", "With page: ADDRESS:PORT of this host's loopback where it is shown.");
DEFINE_int32(timeout_s, 5, "How long to wait for the job to connect, and for each of its answers, in seconds.");

namespace hp {
namespace {

constexpr int kMaxTimeoutS = 2'000'000;  // timers count milliseconds in an int

constexpr char kUsage[] =
    R"(Talks to a running job.

  hpctl --routing=TABLE.prototxt COMMAND

Commands:
  status        how the job and each of its nodes are; --json: for programs
  watch         the same on the whole terminal, once a second, with curves of loss and images/s
  page          shows the same to browsers of this host, at --http, until it is ended; goes on with the next start
  snapshot      all nodes take a snapshot, and go on
  stop          all nodes take a snapshot and stop, with exit status 5
  lr BASE_LR    the solver's base_lr is this from here on; lr_policy goes on as before. Snapshots keep it
  trace on|off  each node begins or ends its trace: NODE.json in hpnode's --trace folder, or in SNAPSHOT_PREFIX_trace

Orders are carried out by all nodes in front of the same iteration, which hpctl prints. A job with a token takes them
from who has the token, a job without one from the host of its first node alone.
Exit status: 0 done; 2 the order or the configuration is wrong, or the job stops before it; 4 there is no such job.

Example:
  hpctl --routing=table.prototxt lr 0.001
  hpctl --routing=table.prototxt --http=127.0.0.1:8080 page
)";

StatusOr<JobClient::Options> ClientOptions(bool control) {
  if (FLAGS_timeout_s < 1 || FLAGS_timeout_s > kMaxTimeoutS) {
    return InvalidArgument("--timeout_s is %d; expected 1 to %d", FLAGS_timeout_s, kMaxTimeoutS);
  }
  JobClient::Options options;
  options.control = control;
  options.timeout_ms = FLAGS_timeout_s * 1000;
  if (FLAGS_token_file.empty()) return options;
  HP_ASSIGN_OR_RETURN(options.keys, ReadJobKeys(FLAGS_token_file));
  return options;
}

/// Shows the job until this process is ended. The table's file is read at each start of the job anew.
Status ShowPage(const JobClient::Options& options) {
  const JobReader::FindTable find = [] { return RoutingTable::Load(FLAGS_routing); };
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<JobPage> page, JobPage::Open("http", FLAGS_http, JobReader(find, options)));
  std::cout << "the job is shown at http://" << FLAGS_http << "/" << std::endl;
  while (true) pause();
}

Status Run(const std::vector<std::string>& words) {
  if (FLAGS_routing.empty()) return InvalidArgument("--routing=TABLE.prototxt is missing (hpctl --help)");
  const bool watch = words[0] == "watch", page = words[0] == "page", ask = watch || page || words[0] == "status";
  JobOrder order;
  if (!ask) {
    HP_ASSIGN_OR_RETURN(order, ParseOrder(words));
  } else if (words.size() > 1) {
    return InvalidArgument("expected: %s", words[0].c_str());
  }
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Load(FLAGS_routing));
  HP_ASSIGN_OR_RETURN(const JobClient::Options options, ClientOptions(!ask));
  if (page) return ShowPage(options);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, JobClient::Connect(table, options));
  if (watch) return WatchJob(client.get());
  if (!ask) {
    HP_ASSIGN_OR_RETURN(const int64_t iteration, client->GiveOrder(order));
    std::cout << DescribeOrder(order, iteration) << "\n";
    return OkStatus();
  }
  HP_ASSIGN_OR_RETURN(const JobStatus status, client->AskStatus());
  std::cout << (FLAGS_json ? MessageJson(status) : StatusText(status, std::time(nullptr)));
  return OkStatus();
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"hpctl", hp::kUsage, 1, 2};
  return hp::ToolMain(argc, argv, usage, hp::Run);
}
