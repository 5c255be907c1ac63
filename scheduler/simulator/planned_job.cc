#include "scheduler/simulator/planned_job.h"

#include "scheduler/plan/table_places.h"
#include "solvers/exchange/direct_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

namespace hp {
namespace {

// Of 1538 bytes that a full Ethernet frame takes, TCP's payload is 1448.
constexpr double kTcpPayload = 1448.0 / 1538;
// Between two processes of a host: a copy in and one out.
constexpr double kLocalCopies = 2;
constexpr int64_t kLocalLatencyNs = 10'000;
// Frames of a clock, about: more of them take time and tell nothing new.
constexpr int64_t kMostFrames = 200'000, kMostFrameBytes = 4 << 20;

/// The groups of a node that a stage exchanges, as its backward passes make them final: from the last segment and layer
/// to the first (ExchangedParamsOf).
std::vector<int> ExchangedGroups(const PipelinePlan& plan, int stage, GroupExchange exchange) {
  std::map<std::pair<int, int>, int, std::greater<>> backward;  // by segment and layer
  for (int u = 0; u < static_cast<int>(plan.groups.size()); ++u) {
    const ParamGroupPlan& group = plan.groups[u];
    if (group.exchange == exchange && group.stage == stage) backward[{group.segment, group.layer}] = u;
  }
  std::vector<int> groups;
  for (const auto& [place, group] : backward) groups.push_back(group);
  return groups;
}

/// Bytes that all nodes send in a clock.
double BytesOfClock(const SimulatedJob& job, const Schedule& schedule) {
  double bytes = 0;
  for (const SimulatedJob::Node& node : job.nodes) {
    for (const MsgId id : schedule.TrainIds(0, node.plan.share)) {
      for (const PortPlan& port : node.plan.phase(id).ports) {
        if (!port.landing) bytes += static_cast<double>(port.row_bytes * schedule.SamplesOfId(id).rows);
      }
    }
  }
  for (const SimulatedExchange& exchange : job.exchanges) {
    for (const SimulatedExchange::Collective& collective : exchange.collectives) {
      bytes += 2.0 * static_cast<double>(collective.bytes) * static_cast<double>(exchange.ranks.size() - 1);
    }
  }
  for (const SimulatedServed& served : job.served) {
    for (const auto& pieces : served.pieces) {
      for (const SimulatedServed::Piece& piece : pieces) {
        bytes += 2.0 * static_cast<double>(piece.bytes) * static_cast<double>(served.ranks.size());
      }
    }
  }
  return bytes;
}

}  // namespace

StatusOr<std::vector<int>> PlacesOfNodes(const RoutingTable& table, const Hosts& hosts) {
  std::map<std::pair<std::string, std::string>, int> places;  // by host and device
  for (int place = 0; place < static_cast<int>(hosts.places.size()); ++place) {
    places[{hosts.hosts[hosts.places[place].host].name, hosts.places[place].device}] = place;
  }
  std::vector<int> of_nodes;
  std::map<std::string, int> given;  // GPUs of a host that a scheduler has given to its tasks
  for (const NodeInfo& node : table.nodes()) {
    const std::string device = node.device == kOwnGpu ? "cuda:" + std::to_string(given[node.host]++) : node.device;
    const auto place = places.find({node.host, device});
    if (place == places.end()) {
      return InvalidArgument("%s: node \"%s\" is on device \"%s\" of host \"%s\", which is not among the hosts",
                             table.path().c_str(), node.name.c_str(), device.c_str(), node.host.c_str());
    }
    of_nodes.push_back(place->second);
  }
  return of_nodes;
}

std::vector<SimulatedExchange> ExchangesOf(const JobPlan& plan) {
  std::vector<SimulatedExchange> exchanges;
  for (int stage = 0; stage < static_cast<int>(plan.table().stages().size()); ++stage) {
    const StageInfo& info = plan.table().stage(stage);
    if (!info.conv || info.size() < 2 || info.served >= 0) continue;
    SimulatedExchange exchange;
    exchange.stage = stage;
    exchange.ranks = info.ranks;
    for (const Rank rank : info.ranks) {
      exchange.groups.push_back(ExchangedGroups(plan.pipeline(rank), stage, GroupExchange::kSum));
    }
    if (exchange.groups[0].empty()) continue;
    BlockPlan::Options cut;
    cut.size = info.size();
    const bool rounds = plan.table().wire() != ElementType::kFloat32 && !info.by_nccl;
    std::vector<size_t> first_of;  // by place: the group's first parameter
    const PipelinePlan pipeline = plan.pipeline(info.ranks[0]);
    for (const int group : exchange.groups[0]) {
      first_of.push_back(cut.counts.size());
      for (const ParamPlan& param : plan.node(info.ranks[0], caffe::TRAIN).params()) {
        if (param.graph_layer != pipeline.groups[group].layer || param.spec.lr_mult == 0) continue;
        cut.counts.push_back(static_cast<size_t>(param.block.count()));
        if (rounds) cut.exact.push_back(param.spec.average_keeps.has_value());
      }
    }
    first_of.push_back(cut.counts.size());
    for (int replica = 0; info.sums_within_hosts() && replica < info.size(); ++replica) {
      if (info.host_of[replica] == std::ssize(exchange.on_links)) exchange.on_links.push_back(info.ranks[replica]);
    }
    // By a ring or directly, each replica (or host) sends and receives as much.
    const DirectPlan collectives(cut);
    for (int i = 0; i < std::ssize(collectives.collectives()); ++i) {
      const BlockPlan::Collective& collective = collectives.collectives()[i];
      const size_t bytes = rounds && !collective.exact ? sizeof(uint16_t) : sizeof(float);
      exchange.collectives.push_back(
          {static_cast<int64_t>(collective.count * bytes), static_cast<int64_t>(collective.chunk * bytes)});
    }
    for (size_t place = 0; place + 1 < first_of.size(); ++place) {
      std::vector<int> of_group;
      for (size_t param = first_of[place]; param < first_of[place + 1]; ++param) {
        of_group.push_back(collectives.collective_of(static_cast<int>(param)));
      }
      std::sort(of_group.begin(), of_group.end());
      of_group.erase(std::unique(of_group.begin(), of_group.end()), of_group.end());
      exchange.collectives_of.push_back(std::move(of_group));
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

std::vector<SimulatedServed> ServedOf(const JobPlan& plan) {
  std::vector<SimulatedServed> all;
  for (int stage = 0; stage < static_cast<int>(plan.table().stages().size()); ++stage) {
    const StageInfo& info = plan.table().stage(stage);
    if (!info.conv || info.served < 0) continue;
    SimulatedServed served;
    served.stage = stage;
    served.server_stage = info.served;
    served.ranks = info.ranks;
    served.servers = plan.table().stage(info.served).ranks;
    for (const Rank rank : info.ranks) {
      served.groups.push_back(ExchangedGroups(plan.pipeline(rank), stage, GroupExchange::kPush));
    }
    const PipelinePlan replica = plan.pipeline(info.ranks[0]);
    for (const int group : served.groups[0]) {
      std::vector<SimulatedServed::Piece>& pieces = served.pieces.emplace_back();
      for (int server = 0; server < static_cast<int>(served.servers.size()); ++server) {
        const PipelinePlan of_server = plan.pipeline(served.servers[server]);
        for (int on = 0; on < static_cast<int>(of_server.groups.size()); ++on) {
          if (of_server.groups[on].layer != replica.groups[group].layer) continue;
          int64_t count = 0;
          for (const ParamPlan& param : plan.node(served.servers[server], caffe::TRAIN).params()) {
            if (param.graph_layer == of_server.groups[on].layer) count += param.block.count();
          }
          pieces.push_back({server, on, count * static_cast<int64_t>(sizeof(float))});
        }
      }
    }
    all.push_back(std::move(served));
  }
  return all;
}

SimulatedJob SimulatedJobOf(const JobPlan& plan, const Hosts& hosts, const std::vector<int>& places, int64_t clocks) {
  SimulatedJob job;
  std::vector<double> memory(hosts.hosts.size());
  for (const HostPlace& place : hosts.places) {
    memory[place.host] = std::max(memory[place.host], place.speed.bytes_per_second);
  }
  for (size_t host = 0; host < hosts.hosts.size(); ++host) {
    const HostInfo& info = hosts.hosts[host];
    job.hosts.push_back({info.name, info.link_bytes_per_second * kTcpPayload, memory[host] / kLocalCopies,
                         std::llround(info.latency_s * 1e9), kLocalLatencyNs});
  }
  for (const NodeInfo& node : plan.table().nodes()) {
    job.nodes.push_back({node.name, hosts.places[places[node.rank]].host, plan.pipeline(node.rank)});
    job.nodes.back().plan.updates_together = node.device != "cpu";
  }
  job.exchanges = ExchangesOf(plan);
  job.served = ServedOf(plan);
  job.shape = plan.schedule().shape();
  job.shape.max_iter = clocks;
  job.shape.tests.clear();
  job.shape.test_interval = 0;
  job.frame_bytes = std::clamp(static_cast<int64_t>(BytesOfClock(job, plan.schedule()) / kMostFrames), job.frame_bytes,
                               kMostFrameBytes);
  return job;
}

PlannedTimes::PlannedTimes(const JobPlan& plan, const Hosts& hosts, const std::vector<int>& places)
    : plan_(plan), costs_(CostsOf(plan.graph(caffe::TRAIN), plan.shapes(caffe::TRAIN))) {
  std::map<int, int> nodes_on;  // by place
  for (const int place : places) ++nodes_on[place];
  for (Rank rank = 0; rank < plan.table().size(); ++rank) {
    const HostPlace& place = hosts.places[places[rank]];
    const int nodes = nodes_on[places[rank]];
    ComputeSpeed speed = place.speed;
    speed.flops /= nodes;
    speed.bytes_per_second /= nodes;
    auto layers = std::make_unique<LayerTimes>(costs_, speed, place.profile.get(), place.scale * nodes);
    Node node{plan.pipeline(rank), std::move(layers), {}};
    for (int variant = 0; variant < plan.variants(rank); ++variant) {
      node.variants.emplace_back(plan.node(rank, caffe::TRAIN, variant), *node.layers);
    }
    nodes_.push_back(std::move(node));
  }
}

int64_t PlannedTimes::NsOf(Rank rank, const Task& task) const {
  const int64_t turn = task.id.bits == 0 ? -1 : TurnOf(task.id, nodes_[rank].pipeline.replicas);
  const auto [known, is_new] = known_.try_emplace({rank, task.kind, turn, task.segment, task.group});
  if (is_new) known->second = std::llround(Seconds(rank, task) * 1e9);
  int64_t ns = known->second;
  for (const int group : task.more_groups) {
    ns += NsOf(rank, {.kind = Task::kUpdate, .segment = task.segment, .group = group, .clock = task.clock});
  }
  return ns;
}

// A deferred weight gradient counts with its update, also where it is a task of its own before the norm.
double PlannedTimes::Seconds(Rank rank, const Task& task) const {
  const Node& node = nodes_[rank];
  const int variant = task.id.bits == 0 ? 0 : node.pipeline.VariantOf(task.id);
  const NodePlan& plan = plan_.node(rank, caffe::TRAIN, variant);
  const auto rows = [&] { return static_cast<double>(RowsOf(task.id)); };
  // Over the layers of the task's group.
  const auto sum = [&](const auto& seconds_of) {
    double seconds = 0;
    for (const int layer : node.pipeline.groups[task.group].layers) {
      seconds += seconds_of(static_cast<int>(plan.FindLayer(layer) - plan.layers().data()));
    }
    return seconds;
  };
  switch (task.kind) {
    case Task::kForward:
      return node.variants[variant].Forward(task.segment, rows());
    case Task::kBackward:
      return node.variants[variant].Backward(task.segment, rows());
    case Task::kWeightGradient:
      if (task.id.bits == 0) return 0;
      return sum([&](int layer) { return node.variants[variant].WeightGradient(layer, rows()); });
    case Task::kUpdate:
      if (node.pipeline.groups[task.group].exchange == GroupExchange::kServe) return ServerSeconds(rank, task.group);
      return sum([&](int layer) { return node.variants[variant].Update(layer); });
    default:
      return 0;
  }
}

// It reads the replicas' gradients and writes their sum; the update itself touches six numbers of each parameter.
double PlannedTimes::ServerSeconds(Rank rank, int group) const {
  const ParamGroupPlan& plan = nodes_[rank].pipeline.groups[group];
  const StageInfo& stage = plan_.table().stage(plan.stage);
  int64_t bytes = 0;
  for (const ParamPlan& param : plan_.node(rank, caffe::TRAIN).params()) {
    if (param.graph_layer == plan.layer) bytes += param.block.count() * static_cast<int64_t>(sizeof(float));
  }
  // A layer that owns none of the group's parameters tells nothing of their number; that costs an estimate of it.
  const int64_t learned = std::max<int64_t>(1, costs_[plan.layer].learned_bytes);
  const double share = static_cast<double>(bytes) / static_cast<double>(learned);
  const int replicas = plan_.table().stage(stage.served).size();
  return nodes_[rank].layers->UpdateSeconds(plan.layer, share) * (6 + replicas + 1) / 6;
}

// The layers of the segment from the last one down to the group's.
int64_t PlannedTimes::GradientNs(Rank rank, const Task& task, int group) const {
  const auto [known, is_new] =
      gradients_.try_emplace({rank, TurnOf(task.id, nodes_[rank].pipeline.replicas), task.segment, group});
  if (!is_new) return known->second;
  const Node& node = nodes_[rank];
  const int variant = node.pipeline.VariantOf(task.id);
  const NodePlan& plan = plan_.node(rank, caffe::TRAIN, variant);
  double seconds = 0;
  for (const NodeTimes::LayerPass& pass :
       node.variants[variant].BackwardPasses(task.segment, static_cast<double>(RowsOf(task.id)))) {
    if (plan.layers()[pass.layer].layer < node.pipeline.groups[group].layer) break;
    seconds += pass.seconds;
  }
  return known->second = std::llround(seconds * 1e9);
}

std::vector<int64_t> PlannedTimes::LayerEndsNs(Rank rank, const Task& task) const {
  const int64_t turn = TurnOf(task.id, nodes_[rank].pipeline.replicas);
  std::vector<int64_t>& ends = layer_ends_[{rank, task.kind, turn, task.segment}];
  if (!ends.empty()) return ends;
  const NodeTimes& times = nodes_[rank].variants[nodes_[rank].pipeline.VariantOf(task.id)];
  const auto rows = static_cast<double>(RowsOf(task.id));
  double seconds = 0;
  for (const NodeTimes::LayerPass& pass : task.kind == Task::kForward ? times.ForwardPasses(task.segment, rows)
                                                                      : times.BackwardPasses(task.segment, rows)) {
    seconds += pass.seconds;
    ends.push_back(std::llround(seconds * 1e9));
  }
  return ends;
}

}  // namespace hp
