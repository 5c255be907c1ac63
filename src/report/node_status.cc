#include "report/node_status.h"

#include "base/format.h"
#include "base/host.h"
#include "base/log_writer.h"
#include "scheduler/control/peer_rules.h"

#include <string>

namespace hp {

NodeStatus MakeNodeStatus(int64_t at_ns, const NodeUse& use, const Pipeline::Load& load, const Reporter* reporter) {
  NodeStatus status;
  status.set_at_ns(at_ns);
  status.set_computing_ns(use.time.computing_ns);
  for (const int64_t wait_ns : use.time.waiting_ns) status.add_waiting_ns(wait_ns);
  Payload all;
  for (const auto& [peer, moved] : use.payload) {
    all += moved;
    while (status.sent_to_bytes_size() <= peer) status.add_sent_to_bytes(0);
    status.set_sent_to_bytes(peer, moved.sent);
  }
  status.set_sent_bytes(all.sent);
  status.set_received_bytes(all.received);
  status.set_solvers_free(load.solvers_free);
  status.set_solvers_bound(load.solvers_bound);
  status.set_tasks_ready(load.tasks_ready);
  status.set_tensors_waiting(load.tensors_waiting);
  status.set_memory_bytes(ResidentBytes());
  if (const LoggedText warning = LastWarning(); warning.number > 0) {
    status.set_last_warning(warning.text.substr(0, PeerRules::kMaxWarning));
    status.set_last_warning_s(warning.time);
  }
  if (reporter != nullptr) *status.mutable_learning() = reporter->latest();
  return status;
}

void AddLogLines(int64_t* sent, NodeStatus* status) {
  static_assert(RecentLines::kMost <= PeerRules::kMostLines);
  for (const LoggedText& logged : LinesAfter(*sent)) {
    *sent = logged.number;
    LoggedLine* const line = status->add_line();
    line->set_time_s(logged.time);
    line->set_text(logged.text.substr(0, PeerRules::kMaxLine));
    line->set_severity(logged.severity == 'I'   ? LoggedLine::PROGRESS
                       : logged.severity == 'W' ? LoggedLine::WARNING
                                                : LoggedLine::ERROR);
  }
}

int64_t RowsOf(const JobPlan& job, const RoutingTable& table, const NodeInfo& node) {
  const int64_t all = job.schedule().update_rows();
  const StagePart& part = node.parts.front();
  const StageInfo& stage = table.stage(part.stage);
  if (!stage.conv) return all;
  if (part.stage != 0) return all / stage.size();
  const auto [begin, end] = job.schedule().RowsOf(caffe::TRAIN, part.index);
  return (end - begin) * job.schedule().shape().iter_size;
}

std::string RolesOf(const RoutingTable& table, const NodeInfo& node) {
  std::string roles;
  for (const StagePart& part : node.parts) {
    const std::string role = table.stage(part.stage).role();
    if (roles.find(role) == std::string::npos) roles += (roles.empty() ? "" : "+") + role;
  }
  return roles;
}

std::string DescribeSlow(const RoutingTable& table, Rank self, const SlowNode& slow) {
  const NodeInfo& node = table.node(slow.node());
  const char* const this_node = node.rank == self ? "this node, " : "node ";
  const char* const comma = node.rank == self ? "," : "";
  return Format(
      "%s%s on host %s%s is slow: all others wait for other nodes at least %.0f%% of the time, it waits %.0f%%; "
      "hproute --exclude=%s leaves its host out at the next start",
      this_node, node.name.c_str(), node.host.c_str(), comma, 100 * slow.others_wait(), 100 * slow.waits(),
      node.host.c_str());
}

}  // namespace hp
