#include "commands/survey.h"

#include "base/host.h"
#include "base/pending_file.h"
#include "commands/own_node.h"
#include "node/survey/host_survey.h"
#include "node/survey/survey_findings.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr char kHeader[] =
    "# Hosts as hpnode --doctor --routing=... measured them, for hproute --hosts=FILE. Fields: "
    "src/proto/planning.proto.\n";

/// The first nodes of those hosts of the table that may be this one.
StatusOr<std::vector<Rank>> OwnHosts(const RoutingTable& table, const std::string& node_name) {
  std::string host;
  if (!node_name.empty()) {
    HP_ASSIGN_OR_RETURN(const Rank rank, table.FindNode(node_name));
    host = table.node(rank).host;
  }
  std::vector<Rank> own;
  std::string all;
  for (const Rank rank : FirstNodesOfHosts(table)) {
    const std::string& other = table.node(rank).host;
    if (host.empty() ? IsThisHost(other) : other == host) own.push_back(rank);
    all += (all.empty() ? "" : ", ") + other;
  }
  if (!own.empty()) return own;
  std::string addresses;
  for (const std::string& address : OwnAddresses()) addresses += (addresses.empty() ? "" : ", ") + address;
  return NotFound(
      "%s: no host of the table is this one, which has the addresses %s; the table has %s (--node=NAME "
      "selects the host of a node)",
      table.path().c_str(), addresses.c_str(), all.c_str());
}

Status WriteHosts(const HostsConfig& hosts, const std::string& path) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(hosts, &text);
  return WriteWholeFile(path, kHeader + text);
}

}  // namespace

Status RunSurvey(const RoutingTable& table, const std::string& node_name, const HostSettings& settings,
                 const std::string& out_path, std::ostream* out) {
  HP_ASSIGN_OR_RETURN(const std::vector<Rank> candidates, OwnHosts(table, node_name));
  std::unique_ptr<TcpListener> listener;
  const auto listen = [&](const NodeInfo& node) -> Status {
    HP_ASSIGN_OR_RETURN(listener, ListenAsNode(table, node.rank, settings));
    return OkStatus();
  };
  HP_ASSIGN_OR_RETURN(const Rank rank, TakeOwnNode(table, candidates, "hpnode", listen));
  const std::vector<Rank> nodes = FirstNodesOfHosts(table);
  const auto own = static_cast<int>(std::find(nodes.begin(), nodes.end(), rank) - nodes.begin());
  *out << "host " << table.node(rank).host << ": waiting for the other " << nodes.size() - 1 << " of the table at "
       << table.node(rank).address() << std::endl;
  HP_ASSIGN_OR_RETURN(const SurveyReport report, SurveyHosts(table, own, settings, std::move(listener)));
  for (const Finding& finding : FindingsOf(report)) {
    *out << (finding.good ? "ok    " : "LOOK  ") << finding.what << "\n";
    if (!finding.advice.empty()) *out << "      -> " << finding.advice << "\n";
  }
  out->flush();
  if (out_path.empty()) return OkStatus();
  HP_RETURN_IF_ERROR(WriteHosts(HostsOfSurvey(report, table), out_path));
  *out << "wrote " << out_path << ", for hproute --hosts=" << out_path << std::endl;
  return OkStatus();
}

}  // namespace hp
