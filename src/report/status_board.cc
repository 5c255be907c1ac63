// Each node's part holds sums since the start of training; what happened lately is the difference of its two latest
// parts, by the node's own clock, so that nothing depends on when they arrived.
#include "report/status_board.h"

#include "base/format.h"
#include "proto/log_lines.h"
#include "report/node_status.h"
#include "scheduler/pipeline/time_use.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

double Rate(int64_t count, int64_t ns) {
  return ns > 0 && count > 0 ? static_cast<double>(count) * kNsPerSecond / static_cast<double>(ns) : 0;
}

int64_t WaitOf(const NodeStatus& status, int wait) {
  return wait < status.waiting_ns_size() ? status.waiting_ns(wait) : 0;
}

/// The part of the time between two moments that a node waited for other nodes.
double WaitedForNodes(const NodeStatus& from, const NodeStatus& to) {
  int64_t ns = 0;
  for (const Wait wait : {Wait::kActivations, Wait::kGradients, Wait::kGrants, Wait::kExchange, Wait::kVerdict}) {
    ns += WaitOf(to, static_cast<int>(wait)) - WaitOf(from, static_cast<int>(wait));
  }
  const int64_t passed_ns = to.at_ns() - from.at_ns();
  return passed_ns > 0 ? static_cast<double>(ns) / static_cast<double>(passed_ns) : 0;
}

void AddShares(const NodeStatus& from, const NodeStatus& to, NodeState* state) {
  const auto add = [&](const char* cause, int64_t ns) {
    TimeShare* const share = state->add_time();
    share->set_cause(cause);
    share->set_share(Rate(ns, to.at_ns() - from.at_ns()) / kNsPerSecond);
  };
  add("computing", to.computing_ns() - from.computing_ns());
  for (int wait = 0; wait < kWaits; ++wait) {
    if (const int64_t ns = WaitOf(to, wait) - WaitOf(from, wait); ns > 0) add(NameOf(static_cast<Wait>(wait)), ns);
  }
}

/// The tensors that each node sends to each other one in training, by their blobs.
std::map<std::pair<Rank, Rank>, std::set<std::string>> TensorsOf(const JobPlan& job) {
  constexpr size_t kMostTensors = 4;  // of one pair, as a status has them
  const Placement& placement = job.placement(caffe::TRAIN);
  std::map<std::pair<Rank, Rank>, std::set<std::string>> tensors;
  for (Rank rank = 0; rank < job.table().size(); ++rank) {
    for (int variant = 0; variant < job.variants(rank); ++variant) {
      for (const PortPlan& port : job.node(rank, caffe::TRAIN, variant).ports()) {
        if (port.landing) continue;
        const std::string& blob = job.graph(caffe::TRAIN).blobs()[placement.edges()[port.edge].blob].name;
        for (const Rank peer : port.peers) {
          std::set<std::string>& names = tensors[{rank, peer}];
          if (names.size() < kMostTensors) names.insert((port.gradient ? "gradient of " : "") + Printable(blob, 64));
        }
      }
    }
  }
  return tensors;
}

}  // namespace

StatusBoard::StatusBoard(const RoutingTable& table, const Clock* clock)
    : table_(table), clock_(clock), start_ns_(clock->NowNs()) {
  MutexLock lock(&mutex_);
  nodes_.resize(table.size());
  precision_ = table.DescribePrecision(table.config().precision());
}

void StatusBoard::Begin(const JobPlan* job, std::string run_id, int64_t start_clock, std::string precision) {
  MutexLock lock(&mutex_);
  job_ = job;
  precision_ = std::move(precision);
  run_id_ = std::move(run_id);
  tensors_ = TensorsOf(*job);
  for (Node& node : nodes_) {
    node.clocks = start_clock;
    node.reported_ns = clock_->NowNs();
  }
}

void StatusBoard::Add(Rank from, const IterationReport& report) {
  MutexLock lock(&mutex_);
  Node& node = nodes_.at(from);
  node.clocks = report.clock() + 1;
  node.reported_ns = clock_->NowNs();
  if (!report.has_node_status()) return;
  KeepLines(table_.node(from), report.node_status());
  node.before = std::move(node.latest);
  node.latest = Part{report.node_status(), node.clocks};
  node.latest->status.clear_line();
  if (!node.window) node.window = node.latest;
  if (report.node_status().has_learning()) learning_ = report.node_status().learning();
  LookForSlow();
}

void StatusBoard::KeepLines(const NodeInfo& node, const NodeStatus& status) {
  for (const LoggedLine& said : status.line()) {
    LoggedLine* const line = lines_.Add();
    *line = said;
    line->set_node(node.name);
    line->set_text(Printable(said.text()));
    line->set_number(++lines_said_);
  }
  if (status.line_size() > 0) TrimLines(&lines_);
}

// When the shortest window is long enough, all of them end: nodes report about equally often.
void StatusBoard::LookForSlow() {
  std::vector<double> waited;
  for (const Node& node : nodes_) {
    if (!node.latest || node.latest->status.at_ns() - node.window->status.at_ns() < kWindowNs) return;
    waited.push_back(WaitedForNodes(node.window->status, node.latest->status));
  }
  const auto least = std::min_element(waited.begin(), waited.end());
  double others = 1;
  for (auto wait = waited.begin(); wait != waited.end(); ++wait) {
    if (wait != least) others = std::min(others, *wait);
  }
  const auto slowest = static_cast<size_t>(least - waited.begin());
  const NodeInfo& info = table_.node(static_cast<Rank>(slowest));
  const bool replaceable = std::any_of(info.parts.begin(), info.parts.end(),
                                       [this](const StagePart& part) { return table_.stage(part.stage).size() > 1; });
  const bool found = replaceable && *least <= kBusyWait && others >= kSlowWait;
  for (size_t rank = 0; rank < nodes_.size(); ++rank) {
    Node& node = nodes_[rank];
    const bool slow = found && rank == slowest;
    if (slow && !node.slow) {
      found_slow_.emplace();
      found_slow_->set_node(static_cast<Rank>(rank));
      found_slow_->set_waits(*least);
      found_slow_->set_others_wait(others);
    }
    node.slow = slow;
    node.window = node.latest;
  }
}

std::optional<SlowNode> StatusBoard::TakeSlow() {
  MutexLock lock(&mutex_);
  return std::exchange(found_slow_, std::nullopt);
}

NodeState StatusBoard::Describe(const NodeInfo& info, const Node& node, int64_t now_ns) const {
  NodeState state;
  state.set_name(info.name);
  state.set_role(RolesOf(table_, info));
  state.set_host(info.host);
  if (job_ == nullptr) return state;
  const bool silent = now_ns - node.reported_ns > kSilentNs;
  state.set_state(silent ? NodeState::SILENT : NodeState::TRAINING);
  state.set_iteration(node.clocks);
  state.set_report_age_s(static_cast<double>(now_ns - node.reported_ns) / kNsPerSecond);
  state.set_slow(node.slow);
  if (!node.latest) return state;
  const NodeStatus& latest = node.latest->status;
  state.set_solvers_free(latest.solvers_free());
  state.set_solvers_bound(latest.solvers_bound());
  state.set_tasks_ready(latest.tasks_ready());
  state.set_tensors_waiting(latest.tensors_waiting());
  state.set_memory_bytes(latest.memory_bytes());
  if (latest.has_last_warning()) {
    state.set_last_warning(Printable(latest.last_warning()));
    state.set_last_warning_s(latest.last_warning_s());
  }
  const Part begin = node.before.value_or(Part());  // the first part counts from the start of training
  const int64_t passed_ns = latest.at_ns() - begin.status.at_ns();
  if (node.before)
    state.set_images_per_s(Rate((node.latest->clocks - begin.clocks) * RowsOf(*job_, table_, info), passed_ns));
  state.set_sent_bytes_per_s(Rate(latest.sent_bytes() - begin.status.sent_bytes(), passed_ns));
  state.set_received_bytes_per_s(Rate(latest.received_bytes() - begin.status.received_bytes(), passed_ns));
  AddShares(begin.status, latest, &state);
  return state;
}

void StatusBoard::AddLinks(JobStatus* status) const {
  std::vector<LinkState> links;
  for (Rank from = 0; from < table_.size(); ++from) {
    const Node& node = nodes_[from];
    if (!node.latest) continue;
    const NodeStatus& latest = node.latest->status;
    const NodeStatus begin = node.before ? node.before->status : NodeStatus();
    for (Rank to = 0; to < latest.sent_to_bytes_size(); ++to) {
      const int64_t earlier = to < begin.sent_to_bytes_size() ? begin.sent_to_bytes(to) : 0;
      const auto tensors = tensors_.find({from, to});
      if (latest.sent_to_bytes(to) == 0) continue;
      LinkState& link = links.emplace_back();
      link.set_from(from);
      link.set_to(to);
      link.set_bytes_per_s(Rate(latest.sent_to_bytes(to) - earlier, latest.at_ns() - begin.at_ns()));
      if (tensors == tensors_.end()) {
        link.add_tensor("parameters");  // no tensor crosses a boundary here: they exchange
      } else {
        for (const std::string& name : tensors->second) link.add_tensor(name);
      }
    }
  }
  if (links.size() > kMostLinks) {
    const auto more = [](const LinkState& a, const LinkState& b) { return a.bytes_per_s() > b.bytes_per_s(); };
    std::stable_sort(links.begin(), links.end(), more);
    links.resize(kMostLinks);
  }
  for (LinkState& link : links) *status->add_link() = std::move(link);
}

JobStatus StatusBoard::Describe(std::optional<int64_t> stop_at) const {
  MutexLock lock(&mutex_);
  const int64_t now_ns = clock_->NowNs();
  JobStatus status;
  status.set_job(table_.job());
  status.set_precision(precision_);
  status.set_uptime_s(static_cast<double>(now_ns - start_ns_) / kNsPerSecond);
  status.set_state(job_ == nullptr ? JobStatus::STARTING : stop_at ? JobStatus::STOPPING : JobStatus::TRAINING);
  if (stop_at) status.set_stop_at(*stop_at);
  for (const NodeInfo& info : table_.nodes()) *status.add_node() = Describe(info, nodes_[info.rank], now_ns);
  if (job_ == nullptr) return status;
  status.set_run_id(run_id_);
  const auto last = [](const Node& a, const Node& b) { return a.clocks < b.clocks; };
  const Node& slowest = *std::min_element(nodes_.begin(), nodes_.end(), last);
  status.set_iteration(slowest.clocks);
  status.set_max_iter(job_->schedule().shape().max_iter);
  *status.mutable_learning() = learning_;
  *status.mutable_line() = lines_;
  AddLinks(&status);
  if (const Node& first = nodes_.front(); first.before) {
    status.set_images_per_s(Rate((first.latest->clocks - first.before->clocks) * job_->schedule().update_rows(),
                                 first.latest->status.at_ns() - first.before->status.at_ns()));
  }
  return status;
}

}  // namespace hp
