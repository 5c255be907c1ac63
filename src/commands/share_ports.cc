#include "commands/share_ports.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/pending_file.h"
#include "scheduler/plan/table_maker.h"

#include "rendezvous/entry.h"
#include "rendezvous/folder_store.h"
#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

namespace hp {
namespace {

constexpr int64_t kPollMs = 100, kReportNs = 15 * kNsPerSecond;

/// The name under which a node's port is kept: FolderStore's names of nodes are 32 hexadecimal digits.
std::string PortKey(Rank rank) { return Format("%032x", rank); }

/// @return 0: it is none.
int PortFromText(const std::string& text) {
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && rest == end && port >= 1 && port <= 65535 ? port : 0;
}

/// The table with the ports that nodes have said. @param[out] missing the first node that has not; null: none.
StatusOr<RoutingTableConfig> WithPorts(const RoutingTable& table, const std::map<std::string, std::string>& said,
                                       const std::string& store, const NodeInfo** missing) {
  RoutingTableConfig config = table.config();
  *missing = nullptr;
  for (const NodeInfo& node : table.nodes()) {
    const auto found = said.find(PortKey(node.rank));
    if (found == said.end()) {
      if (*missing == nullptr) *missing = &node;
      continue;
    }
    const int port = PortFromText(found->second);
    if (port == 0) {
      return DataLoss("%s: \"%s\" is no port of node %s", store.c_str(), found->second.c_str(), node.name.c_str());
    }
    config.mutable_node(node.rank)->set_port(port);
  }
  return config;
}

/// Says the own port and reads those of all nodes until all are there. To write makes a client of NFS look again at
/// what the folder has.
StatusOr<RoutingTableConfig> AwaitPorts(const RoutingTable& table, Rank own, int port, FolderStore* store,
                                        int64_t wait_ms) {
  const Clock* const clock = Clock::Real();
  const int64_t deadline_ns = clock->NowNs() + wait_ms * kNsPerMs;
  int64_t report_ns = clock->NowNs() + kReportNs;
  while (true) {
    const Status put = store->PutNode(PortKey(own), std::to_string(port));
    const auto said = put.ok() ? store->ReadNodes() : put;
    std::string cause = said.status().message();
    if (said.ok()) {
      const NodeInfo* missing = nullptr;
      HP_ASSIGN_OR_RETURN(RoutingTableConfig config, WithPorts(table, *said, store->name(), &missing));
      if (missing == nullptr) return config;
      cause = "node " + missing->name + " on " + missing->host + " has not said its port";
    } else if (said.status().code() != StatusCode::kUnavailable) {
      return said.status();
    }
    const int64_t now_ns = clock->NowNs(), left_ms = (deadline_ns - now_ns) / kNsPerMs;
    if (left_ms <= 0) {
      return DeadlineExceeded("%s: %s within %g s", store->name().c_str(), cause.c_str(),
                              static_cast<double>(wait_ms) / 1e3);
    }
    if (now_ns >= report_ns) {
      report_ns = now_ns + kReportNs;
      LOG(INFO) << store->name() << ": " << cause << " (" << left_ms / 1000 << " s more)";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(kPollMs, left_ms)));
  }
}

/// For clients, which find the solver from the table's own folder.
Status WriteTable(const RoutingTable& table, RoutingTableConfig config, const std::string& folder) {
  std::error_code error;
  config.set_solver(std::filesystem::absolute(table.solver_path(), error).string());
  return WriteWholeFile(folder + "/table.prototxt", TableText(config, table.path() + " with the ports of this start"));
}

}  // namespace

StatusOr<RoutingTable> SharePorts(const RoutingTable& table, Rank own, int port, const std::string& folder,
                                  int64_t wait_ms) {
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<FolderStore> store, FolderStore::Open(folder, NewNonce()));
  HP_ASSIGN_OR_RETURN(const auto before, store->ReadNodes());
  if (before.contains(PortKey(own))) {
    return FailedPrecondition("%s has a port of node %s already: give each start of the job a folder of its own",
                              folder.c_str(), table.node(own).name.c_str());
  }
  HP_ASSIGN_OR_RETURN(const RoutingTableConfig config, AwaitPorts(table, own, port, store.get(), wait_ms));
  if (own == 0) HP_RETURN_IF_ERROR(WriteTable(table, config, folder));
  return RoutingTable::Create(config, table.path());
}

}  // namespace hp
