#include "scheduler/plan/routing_table.h"

#include "base/format.h"
#include "proto/hash.h"
#include "proto/text.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>
#include <map>

namespace hp {
namespace {

Status Faults(const std::string& path, const std::vector<std::string>& faults) {
  if (faults.size() == 1) return InvalidArgument("%s: %s", path.c_str(), faults[0].c_str());
  std::string text = Format("%s: %zu faults:", path.c_str(), faults.size());
  for (const std::string& fault : faults) text += "\n  " + fault;
  return Status(StatusCode::kInvalidArgument, text);
}

NodeInfo MakeNode(const NodeConfig& config, Rank rank, const StageInfo& stage) {
  NodeInfo node;
  node.rank = rank;
  node.name = config.name();
  node.parts = PartsOf(config);
  node.role = stage.role();
  node.host = config.host();
  node.listen = config.listen();
  node.port = config.port();
  node.pool_size = config.pool_size();
  node.threads = config.threads();
  node.share = config.share();
  node.memory_bytes = config.memory_mb() << 20;
  node.link_gbit_per_s = config.link_gbit_per_s();
  node.device = config.device();
  return node;
}

RoutingTableConfig DivisionOf(const RoutingTableConfig& config) {
  RoutingTableConfig division;
  division.set_micro_batches(config.micro_batches());
  division.set_batch(config.batch());
  if (config.staleness() != 0) division.set_staleness(config.staleness());
  if (config.precision() != RoutingTableConfig::FP32) division.set_precision(config.precision());
  if (config.wire_precision() != RoutingTableConfig::FP32) division.set_wire_precision(config.wire_precision());
  if (config.convolution_engines() != RoutingTableConfig::HEURISTIC) {
    division.set_convolution_engines(config.convolution_engines());
  }
  if (config.jpeg_decoder() != RoutingTableConfig::HOST) division.set_jpeg_decoder(config.jpeg_decoder());
  if (config.precision() == RoutingTableConfig::FP16) {  // its defaults said or not
    division.mutable_loss_scaling()->set_initial(config.loss_scaling().initial());
    division.mutable_loss_scaling()->set_growth_interval(config.loss_scaling().growth_interval());
  }
  for (const StageConfig& stage : config.stage()) {
    StageConfig* entry = division.add_stage();
    *entry = stage;
    entry->clear_name();
    if (entry->boundary() == StageConfig::DIRECT) entry->clear_boundary();
    if (entry->exchange() == StageConfig::ALLREDUCE) entry->clear_exchange();
    if (stage.kind() == StageConfig::PS) entry->set_serves(std::to_string(FindStage(config, stage.serves())));
  }
  std::map<std::string, SplitConfig> splits;
  for (const SplitConfig& split : config.split()) {
    if (split.by() != SplitConfig::OUTPUTS) splits[split.layer()] = split;
  }
  for (const auto& [layer, split] : splits) *division.add_split() = split;
  for (const NodeConfig& node : config.node()) {
    NodeConfig* entry = division.add_node();
    entry->set_stage(node.stage());
    entry->set_index(node.index());
    *entry->mutable_part() = node.part();
    if (node.share() != 1) entry->set_share(node.share());
    if (node.device() != "cpu") entry->set_device("cuda");  // another sum order, whichever GPU it is
  }
  return division;
}

void NumberHosts(const std::vector<NodeInfo>& nodes, StageInfo* stage) {
  std::map<std::string, int> hosts;
  for (const Rank rank : stage->ranks) {
    stage->host_of.push_back(hosts.try_emplace(nodes[rank].host, std::ssize(hosts)).first->second);
  }
  stage->hosts = static_cast<int>(hosts.size());
}

/// Says in the division in which order the gradients of a stage are added, as far as its nodes do not say so already.
void AddSums(const StageInfo& stage, const std::vector<NodeInfo>& nodes, RoutingTableConfig* division) {
  const bool on_gpus =
      std::all_of(stage.ranks.begin(), stage.ranks.end(), [&](Rank rank) { return nodes[rank].device != "cpu"; });
  // NCCL would sum for them, and may not.
  if (stage.conv && on_gpus && stage.size() > 1 && !stage.by_nccl) division->mutable_transport()->set_tls(true);
  if (!stage.sums_within_hosts()) return;
  // Which replicas share a host decides the order, what the hosts are called does not.
  for (int replica = 0; replica < stage.size(); ++replica) {
    division->mutable_node(stage.ranks[replica])->set_host(std::to_string(stage.host_of[replica]));
  }
}

}  // namespace

StatusOr<RoutingTable> RoutingTable::Load(const std::string& path) {
  if (path.find("://") != path.npos) {
    return InvalidArgument(
        "%s is no file, and only hpnode asks who hands tables out: take table.prototxt of the job's run folder (hpnode "
        "--run_folder=FOLDER)",
        path.c_str());
  }
  RoutingTableConfig config;
  HP_RETURN_IF_ERROR(ReadTextProto(path, &config));
  return Create(config, path);
}

StatusOr<RoutingTable> RoutingTable::Create(const RoutingTableConfig& written, const std::string& path) {
  RoutingTableConfig config = written;
  for (NodeConfig& node : *config.mutable_node()) {
    node.set_host(BareHost(node.host()));
    if (node.has_listen()) node.set_listen(BareHost(node.listen()));
  }
  const std::vector<std::string> faults = CheckStructure(config);
  if (!faults.empty()) return Faults(path, faults);
  RoutingTable table;
  table.config_ = config;
  table.path_ = path;
  table.solver_path_ = PathBeside(path, config.solver());
  for (const StageConfig& stage : config.stage()) {
    StageInfo info;
    info.name = StageName(config, static_cast<int>(table.stages_.size()));
    info.conv = stage.kind() == StageConfig::CONV;
    info.scattered = stage.boundary() == StageConfig::SCATTERED;
    info.server = stage.kind() == StageConfig::PS;
    info.by_nccl = info.conv && table.may_send_clear();
    table.stages_.push_back(info);
  }
  for (int server = 0; server < config.stage_size(); ++server) {
    if (!table.stages_[server].server) continue;
    const int served = FindStage(config, config.stage(server).serves());
    table.stages_[server].served = served;
    table.stages_[served].served = server;
  }
  for (const NodeConfig& node : config.node()) {
    const Rank rank = static_cast<Rank>(table.nodes_.size());
    table.nodes_.push_back(MakeNode(node, rank, table.stages_[node.stage()]));
    for (const StagePart& part : table.nodes_.back().parts) {
      StageInfo& stage = table.stages_[part.stage];
      stage.by_nccl &= node.device() != "cpu";
      std::vector<Rank>& ranks = stage.ranks;
      ranks.resize(std::max<size_t>(ranks.size(), part.index + 1));
      ranks[part.index] = rank;
    }
  }
  // Over several communicators NCCL wants one order on all nodes, and a sum begins when its gradients are there.
  for (const NodeInfo& node : table.nodes_) {
    const auto sums = [&table](const StagePart& part) {
      const StageInfo& stage = table.stages_[part.stage];
      return stage.conv && stage.served < 0 && stage.size() > 1;
    };
    if (std::ranges::count_if(node.parts, sums) < 2) continue;
    for (const StagePart& part : node.parts) table.stages_[part.stage].by_nccl = false;
  }
  for (StageInfo& stage : table.stages_) NumberHosts(table.nodes_, &stage);
  for (const NodeInfo& node : table.nodes_) {
    if (config.snapshot_copies() < 2 || node.host == table.nodes_[0].host) continue;
    table.snapshot_copier_ = node.rank;
    break;
  }
  RoutingTableConfig bare = config;
  bare.clear_solver();
  table.hash_ = HashMessage(bare);
  RoutingTableConfig division = DivisionOf(config);
  for (const StageInfo& stage : table.stages_) AddSums(stage, table.nodes_, &division);
  table.division_hash_ = HashMessage(division);
  return table;
}

std::vector<Rank> RoutingTable::snapshot_writers() const {
  return snapshot_copier_ < 0 ? std::vector<Rank>{0} : std::vector<Rank>{0, snapshot_copier_};
}

int NodeInfo::IndexIn(int stage) const {
  const auto found = std::find_if(parts.begin(), parts.end(), [stage](const StagePart& p) { return p.stage == stage; });
  return found == parts.end() ? -1 : found->index;
}

std::vector<Rank> RoutingTable::ReplicasByNccl(Rank rank) const {
  for (const StagePart& part : node(rank).parts) {
    const StageInfo& stage = stages_[part.stage];
    if (stage.by_nccl && stage.size() > 1) return stage.ranks;
  }
  return {};
}

StatusOr<Rank> RoutingTable::FindNode(const std::string& name) const {
  std::string names;
  for (const NodeInfo& node : nodes_) {
    if (node.name == name) return node.rank;
    names += (names.empty() ? "" : ", ") + node.name;
  }
  return NotFound("%s: no node \"%s\"; expected one of %s", path_.c_str(), name.c_str(), names.c_str());
}

std::vector<int> RoutingTable::shares() const {
  std::vector<int> shares;
  for (Rank rank : stages_.front().ranks) shares.push_back(nodes_[rank].share);
  const bool alike = std::all_of(shares.begin(), shares.end(), [&](int share) { return share == shares[0]; });
  return alike ? std::vector<int>() : shares;
}

std::string RoutingTable::DescribePrecision(RoutingTableConfig::Precision products) const {
  const std::string of_products = RoutingTableConfig::Precision_Name(products);
  return wire() == ElementType::kFloat32 ? of_products : of_products + ", BF16 on the wire";
}

int64_t RoutingTable::TrainingBatch(int64_t batch_size) const {
  return config_.batch() == RoutingTableConfig::PER_REPLICA ? batch_size * replicas() : batch_size;
}

StatusOr<std::vector<int>> RoutingTable::StageOfLayers(const caffe::NetParameter& net) const {
  std::vector<std::string> faults;
  std::vector<int> stage_of_layer = AssignLayers(config_, net, &faults);
  if (!faults.empty()) return Faults(path_, faults);
  return stage_of_layer;
}

std::vector<LayerSplit> RoutingTable::SplitOfLayers(const caffe::NetParameter& net) const {
  std::map<std::string, SplitConfig::By> given;
  for (const SplitConfig& split : config_.split()) given[split.layer()] = split.by();
  std::vector<LayerSplit> splits;
  for (const caffe::LayerParameter& layer : net.layer()) {
    const auto found = given.find(layer.name());
    const SplitConfig::By by = found == given.end() ? SplitConfig::OUTPUTS : found->second;
    splits.push_back(by == SplitConfig::INPUTS ? LayerSplit::kInputs
                     : by == SplitConfig::NONE ? LayerSplit::kNone
                                               : LayerSplit::kOutputs);
  }
  return splits;
}

}  // namespace hp
